"""The built-in assessors: their names and options, and their stopping rules."""
