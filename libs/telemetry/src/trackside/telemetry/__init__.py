"""Traces, metrics, structured logs and health endpoints of a service."""
