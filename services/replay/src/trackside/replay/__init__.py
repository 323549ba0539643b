"""Reads logs: rebuilds read models, verifies what was recorded."""
