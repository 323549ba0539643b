"""What is decided: answers to commands, rounds, deployments, services."""
