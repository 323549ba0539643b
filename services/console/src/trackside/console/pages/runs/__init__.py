"""Pages of runs, pipelines and batches."""
