"""A search: trials of one task type with parameters that a tuner suggests."""
