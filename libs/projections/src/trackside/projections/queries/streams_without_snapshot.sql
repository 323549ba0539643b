-- Streams without a snapshot: if there are any, no snapshot is used.
SELECT count(*)
FROM streams
JOIN snapshot_positions ON snapshot_positions.partition = streams.partition
LEFT JOIN snapshots ON snapshots.stream_id = streams.stream_id
WHERE streams.first_offset < snapshot_positions.position AND snapshots.stream_id IS NULL
