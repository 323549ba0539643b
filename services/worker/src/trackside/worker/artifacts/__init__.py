"""Artifacts of tasks on their way between the worker and the store."""
