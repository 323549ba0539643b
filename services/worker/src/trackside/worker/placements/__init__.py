"""The placements of a worker: admission, fencing, begin, interrupt and end."""
