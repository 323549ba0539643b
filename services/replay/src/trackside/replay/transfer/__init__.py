"""Export of streams to portable files, and their import."""
