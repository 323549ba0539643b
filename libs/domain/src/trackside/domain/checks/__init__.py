"""What an aggregate's own rules find in its history."""
