"""Curves in memory: those that were read last, and those of jobs that were to be loaded by a command."""
