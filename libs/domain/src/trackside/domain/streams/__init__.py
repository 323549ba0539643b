"""What each stream has, of any aggregate: commands, children, labels, keys, tasks."""
