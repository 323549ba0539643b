"""The process of a task: its memory, signals, children, end."""
