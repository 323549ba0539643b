"""Read models made again from the log, compared with the live ones, and put in their place."""
