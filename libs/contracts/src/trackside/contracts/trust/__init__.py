"""Which records count: signatures of decisions, and encrypted records."""
