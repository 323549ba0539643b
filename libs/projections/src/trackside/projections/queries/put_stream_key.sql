INSERT INTO trackside_keys.stream_keys (public_key, stream, private_key) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
