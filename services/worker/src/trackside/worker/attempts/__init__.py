"""One attempt: its process, locks, limits, output and outcome."""
