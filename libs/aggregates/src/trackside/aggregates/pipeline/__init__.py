"""A pipeline: its versions by content, its numbered runs, and how many of these are open at once."""
