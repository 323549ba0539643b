"""Decides which trial comes next."""
