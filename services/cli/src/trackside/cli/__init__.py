"""The trackside command."""
