"""The world that simulated services live in: a log, a loop with a virtual clock, a store of segments."""
