"""Simulated tasks."""
