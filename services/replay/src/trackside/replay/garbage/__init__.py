"""Garbage of the store: what the log does not refer to, or need not any longer."""
