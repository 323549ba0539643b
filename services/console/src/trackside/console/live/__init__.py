"""Changes of the read models, pushed to open pages."""
