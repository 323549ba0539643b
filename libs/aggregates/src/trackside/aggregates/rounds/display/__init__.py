"""Rows and texts of an incremental job."""
