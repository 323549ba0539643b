"""Messages as bytes: the codec, what comes in from publishers, rights by topic."""
