"""New searches from recorded ones (rerun, fork), and the importance of parameters."""
