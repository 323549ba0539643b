"""All deciding services over the log in memory, with faults drawn from a seed."""
