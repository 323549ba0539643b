"""Postgres: its only client, its errors, logins, positions and notifications."""
