"""Messages, envelope, codec and topic names: what Trackside says on the wire."""
