"""Lines that tasks have written, read from the log."""
