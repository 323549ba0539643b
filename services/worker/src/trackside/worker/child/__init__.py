"""What runs in task processes and in the forkserver."""
