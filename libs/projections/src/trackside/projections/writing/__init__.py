"""Rows written to Postgres: what changed, in which transaction, and from where again."""
