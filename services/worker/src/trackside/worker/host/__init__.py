"""The devices of the host, and what is used of them."""
