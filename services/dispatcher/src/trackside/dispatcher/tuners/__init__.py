"""The built-in tuners: their names and options, and how they suggest parameters."""
