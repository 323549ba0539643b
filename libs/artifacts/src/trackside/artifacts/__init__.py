"""The store of artifacts: files and folders by their digests, on disk or in an object store."""
