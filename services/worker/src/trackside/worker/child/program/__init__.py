"""Tasks that are programs of their own."""
