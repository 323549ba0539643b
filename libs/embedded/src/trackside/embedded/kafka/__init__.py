"""The Kafka of one machine: its jars, settings, users, and a cache for its start."""
