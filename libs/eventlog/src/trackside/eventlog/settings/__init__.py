"""Settings of services and of their connections, and where they come from."""
