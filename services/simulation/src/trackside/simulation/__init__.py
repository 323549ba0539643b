"""Runs all services on a virtual log, clock and network, with faults drawn from a seed."""
