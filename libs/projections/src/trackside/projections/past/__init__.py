"""Snapshots of the past: the states of all streams of a partition, at every 20,000th event."""
