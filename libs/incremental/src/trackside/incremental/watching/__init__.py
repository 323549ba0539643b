"""Datasets that grow: which lines are new, and how they drift."""
