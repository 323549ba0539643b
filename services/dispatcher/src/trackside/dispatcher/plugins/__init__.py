"""Tuners and assessors of users: classes of installed packages, found by their entry points."""
