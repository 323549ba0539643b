SELECT public_key, private_key FROM trackside_keys.stream_keys WHERE public_key = ANY($1::bytea[])
