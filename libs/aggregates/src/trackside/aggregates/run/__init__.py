"""A run: the steps of a pipeline, once from its start to its end."""
