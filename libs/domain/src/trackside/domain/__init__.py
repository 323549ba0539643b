"""What the log means: state and evolve, one module a subject, the same for every reader."""
