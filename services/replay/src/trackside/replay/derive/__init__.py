"""New searches from recorded ones: rerun, fork; and what a recorded search says of its parameters."""
