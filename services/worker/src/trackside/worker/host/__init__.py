"""The devices of the host, and the usage of host and devices."""
