"""Where bytes are: files, object stores, credentials for them."""
