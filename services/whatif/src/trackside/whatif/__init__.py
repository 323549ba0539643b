"""What-if: re-evaluates a recorded search with another early-stopping rule or fleet size."""
