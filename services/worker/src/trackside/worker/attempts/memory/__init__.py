"""Limits of memory, and what a task had when it ended."""
