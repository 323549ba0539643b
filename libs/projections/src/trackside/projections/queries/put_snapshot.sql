INSERT INTO snapshots (stream_id, partition, log_offset, fold, closed, state) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (stream_id) DO UPDATE SET
    partition = excluded.partition,
    log_offset = excluded.log_offset,
    fold = excluded.fold,
    closed = excluded.closed,
    state = excluded.state
