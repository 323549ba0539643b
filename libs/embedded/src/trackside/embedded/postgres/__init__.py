"""The embedded PostgreSQL: the account it runs as, its programs, and its data."""
