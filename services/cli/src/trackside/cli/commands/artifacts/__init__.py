"""What the commands of `trackside artifacts` do."""
