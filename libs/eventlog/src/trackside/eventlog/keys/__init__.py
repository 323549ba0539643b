"""Keys: of writers that sign, of encrypted streams, of an installation."""
