"""Rebuilds read models from the log, compares them with the live ones, and swaps them in."""
