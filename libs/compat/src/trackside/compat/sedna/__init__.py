"""Sedna: its documents are converted, its worker scripts run as tasks; see docs/sedna.md."""
