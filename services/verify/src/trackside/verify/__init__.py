"""Verifies a log: checks the invariants of streams, tasks, devices and the fleet."""
