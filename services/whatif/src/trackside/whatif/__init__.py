"""What another early-stopping rule, or another number of workers, would have made of a recorded search."""
