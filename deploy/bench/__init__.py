"""Measures Trackside on this machine, each figure beside the ceiling measured in the same run."""
