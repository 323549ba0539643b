"""The states of a stream, at any moment of its log."""
