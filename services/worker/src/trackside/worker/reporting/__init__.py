"""What the worker writes: events, points, heartbeats, and the journal that outlives it."""
