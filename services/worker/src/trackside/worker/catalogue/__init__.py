"""The task types that a worker may run, and the schemas of their parameters."""
