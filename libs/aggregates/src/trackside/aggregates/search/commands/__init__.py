"""Commands that start or change a search."""
