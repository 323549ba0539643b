"""Runs each task in a process of its own and reports what happened."""
