"""The child process that runs tuners and assessors: requests and answers are JSON lines."""
