"""Tuners and assessors of users, found by entry points."""
