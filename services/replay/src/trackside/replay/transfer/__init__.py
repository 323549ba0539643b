"""Streams to and from portable files."""
