"""The checks of invariants, one module for each subject of events."""
