"""Tasks and their attempts: states, retries, artifacts, reports."""
