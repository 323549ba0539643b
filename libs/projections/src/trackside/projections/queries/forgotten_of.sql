SELECT stream_id FROM forgotten_streams WHERE stream_id = ANY($1)
