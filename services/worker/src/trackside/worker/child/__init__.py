"""What runs inside a task's process, and in the server that forks it."""
