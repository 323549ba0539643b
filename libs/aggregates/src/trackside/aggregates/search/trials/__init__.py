"""Trials: which is suggested next, where they come from, their results, what is used again."""
