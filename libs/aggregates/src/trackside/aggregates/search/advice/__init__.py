"""What tuners and assessors are asked and answer, and which trials wait for that."""
