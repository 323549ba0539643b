"""The steps of a run: when they begin, what they use again, how they end."""
