"""What the dispatcher shows of itself: counters, gauges and spans."""
