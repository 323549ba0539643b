INSERT INTO positions (owner, topic, partition, position) VALUES ($1, $2, $3, 0) ON CONFLICT DO NOTHING
