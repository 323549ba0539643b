"""The commands `trackside summaries ...`: jobs, their curves and other values, read from Postgres."""
