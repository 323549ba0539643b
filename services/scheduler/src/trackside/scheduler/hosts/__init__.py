"""Hosts and devices: what is booked there, and what a task needs."""
