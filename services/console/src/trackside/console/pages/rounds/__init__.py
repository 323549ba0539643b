"""Pages of incremental jobs, models and datasets."""
