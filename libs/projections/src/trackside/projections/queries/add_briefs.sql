INSERT INTO summary_briefs AS known (job_id, stream_id, points, items, last_step, first_ms, last_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (job_id) DO UPDATE SET
    points = known.points + excluded.points,
    items = known.items + excluded.items,
    last_step = greatest(known.last_step, excluded.last_step),
    first_ms = least(known.first_ms, excluded.first_ms),
    last_ms = greatest(known.last_ms, excluded.last_ms)
