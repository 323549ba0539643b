"""The virtual environment of simulated services: event loop, clock, network and log."""
