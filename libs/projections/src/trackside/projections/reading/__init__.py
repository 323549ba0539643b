"""Reads of read models, by services and commands."""
