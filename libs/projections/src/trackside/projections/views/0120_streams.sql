SELECT stream_id, partition, rules, first_offset, last_offset, closed, parked_at, needs FROM streams
