"""Metrics of real services, next to the log that they are about."""
