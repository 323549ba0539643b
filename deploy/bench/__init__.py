"""Measures Trackside on this machine, each figure with a reference that is measured in the same run."""
