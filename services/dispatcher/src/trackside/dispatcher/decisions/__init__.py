"""What a stream lacks: answers to commands, next trials, ends. Pure."""
