"""Datasets: files that grow at their end, from which jobs of incremental learning take samples."""
