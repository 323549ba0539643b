"""What a simulated worker has: its state, files, store and reports."""
