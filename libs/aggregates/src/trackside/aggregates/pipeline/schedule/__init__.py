"""What a schedule is: its messages, its state, the checks of its triggers."""
