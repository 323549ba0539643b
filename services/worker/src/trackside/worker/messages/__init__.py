"""Messages between a worker and its processes."""
