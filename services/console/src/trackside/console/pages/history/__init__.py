"""Pages of the log: events, the past and what-if."""
