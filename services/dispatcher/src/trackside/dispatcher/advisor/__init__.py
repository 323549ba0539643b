"""The child process that runs tuners and assessors: JSON lines in, JSON lines out."""
