"""What streams are about, one folder for each aggregate: its state, its fold and its decisions. Pure."""
