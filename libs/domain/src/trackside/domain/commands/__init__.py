"""What becomes of a command: answers to those that every stream knows."""
