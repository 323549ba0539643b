"""All services over a log in memory and a virtual clock, with seeded faults."""
