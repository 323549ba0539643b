"""The placements that are here: admitted, begun, interrupted, given back, ended."""
