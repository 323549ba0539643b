"""Checks of tasks, workers and devices."""
