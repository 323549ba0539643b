"""What the worker writes: events, metric points and output to the log, and the journal to the disk."""
