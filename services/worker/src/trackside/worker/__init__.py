"""Runs each task in a child process and reports what happened."""
