"""Workers and devices, as folded from the fleet topic."""
