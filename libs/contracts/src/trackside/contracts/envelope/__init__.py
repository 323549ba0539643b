"""What each record has: ids, topics, headers, trace, refusals."""
