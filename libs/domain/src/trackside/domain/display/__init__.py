"""What people see of streams and tasks, as plain values: programs that print it choose widths and colours."""
