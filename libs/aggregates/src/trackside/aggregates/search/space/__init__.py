"""Spaces of parameters, and the tuners and assessors that are built in."""
