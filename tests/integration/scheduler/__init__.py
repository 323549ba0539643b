"""The scheduler as a process, with workers played by the test."""
