"""The channel between a task and its worker."""
