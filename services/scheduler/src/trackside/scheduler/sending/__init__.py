"""Commands to devices: which are due, and which have no answer."""
