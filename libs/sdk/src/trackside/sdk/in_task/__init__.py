"""What a task uses in its own process: its channel to the worker, files, checkpoints."""
