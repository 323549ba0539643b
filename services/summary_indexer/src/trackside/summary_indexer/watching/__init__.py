"""Watches directories of event files: what they hold goes to the log, and with it how far they were read."""
