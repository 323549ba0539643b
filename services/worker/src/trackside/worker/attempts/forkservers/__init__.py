"""Forkservers, as the worker speaks with them."""
