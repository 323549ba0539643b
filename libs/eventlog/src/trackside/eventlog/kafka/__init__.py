"""The log on Kafka: its only clients, their settings, topics, users and rights."""
