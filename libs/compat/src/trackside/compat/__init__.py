"""Interfaces of other systems, for code that moves over."""
