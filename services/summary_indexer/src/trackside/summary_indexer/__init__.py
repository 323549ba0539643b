"""Indexes metrics and dead letters into Postgres."""
