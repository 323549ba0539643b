"""Search over jobs by one expression: parameters, metrics, tags, state, times and annotations."""
