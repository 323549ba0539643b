"""The command `summaries export`: all values of jobs as CSV, Parquet or event files."""
