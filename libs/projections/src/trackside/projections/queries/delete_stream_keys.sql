DELETE FROM trackside_keys.stream_keys WHERE stream = ANY($1::text[])
