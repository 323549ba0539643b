"""Messages about streams of any kind: commands and their answers, children, labels, keys."""
