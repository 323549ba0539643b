"""The rows of each table, as they follow from a stream, a record or the fleet."""
