"""Messages about workers and their devices, and the plugins that they name."""
