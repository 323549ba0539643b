"""Decides which queued task goes to which device."""
