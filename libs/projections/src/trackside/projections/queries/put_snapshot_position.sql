INSERT INTO snapshot_positions (partition, position, fold) VALUES ($1, $2, $3)
ON CONFLICT (partition) DO UPDATE SET position = excluded.position, fold = excluded.fold
