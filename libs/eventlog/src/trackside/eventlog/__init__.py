"""The log: append, read, the reactor loop and recovery."""
