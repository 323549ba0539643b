"""The loop of a service: position, fold, decide, append."""
