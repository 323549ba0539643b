"""What-if of recorded streams, each in a process of its own with a time limit."""
