"""The stages of a round: what begins and ends each, and its tasks."""
