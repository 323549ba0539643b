"""The supervisor of a stack, what it starts again, and what it says of that."""
