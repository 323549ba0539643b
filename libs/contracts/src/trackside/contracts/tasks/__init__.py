"""Messages about tasks: attempts, artifacts, instructions, summaries."""
