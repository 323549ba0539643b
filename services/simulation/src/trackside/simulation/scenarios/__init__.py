"""What is simulated, and what is expected of it."""
