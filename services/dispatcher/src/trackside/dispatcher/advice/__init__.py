"""Asks tuners and assessors, in processes and over topics, and turns their answers into proposals."""
