"""A batch: groups of tasks, one group after another."""
