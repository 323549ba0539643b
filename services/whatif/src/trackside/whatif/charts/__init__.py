"""Charts of a what-if, as PNG and HTML."""
