"""Pages of summaries."""
