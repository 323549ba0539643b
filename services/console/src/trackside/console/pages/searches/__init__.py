"""Pages of a search, its trials, and tasks with their output."""
