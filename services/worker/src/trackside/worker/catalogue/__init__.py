"""The task types of a worker, and the schemas of their parameters."""
