INSERT INTO snapshots (topic, partition, position, octets) VALUES ($1, $2, $3, $4)
ON CONFLICT (topic, partition, position) DO UPDATE SET octets = excluded.octets
