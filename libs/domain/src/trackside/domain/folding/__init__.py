"""How a stream of any aggregate is folded: its parts, all streams, what can be looked up."""
