"""The commands of `trackside replay`."""
