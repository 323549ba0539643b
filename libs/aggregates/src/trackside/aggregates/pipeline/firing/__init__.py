"""When a schedule fires, and the runs that follow."""
