"""The state of a stream at any point of its log."""
