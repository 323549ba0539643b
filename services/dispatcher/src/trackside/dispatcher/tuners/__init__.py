"""The tuners that come with Trackside, and the catalogue of their names and options."""
