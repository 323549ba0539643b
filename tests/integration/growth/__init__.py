"""What lives long keeps nothing of each thing that it does: see tests/growth.py."""
