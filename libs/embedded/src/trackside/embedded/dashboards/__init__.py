"""Prometheus and Grafana next to a stack: provisioned with its ports, started if their programs are found."""
