"""Kafka and Postgres without Docker, and the supervisor that runs the stack."""
