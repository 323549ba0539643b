"""Rows of read models, as the fold has them."""
