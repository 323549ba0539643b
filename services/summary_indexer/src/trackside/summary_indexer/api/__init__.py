"""Read-only JSON of summaries over HTTP, on the port of `/ready`."""
