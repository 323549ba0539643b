"""Indexes metric points and dead letters into Postgres: topics in, tables out, nothing decided."""
