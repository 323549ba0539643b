-- The values of series ($1) at some steps ($3), each series up to a step of its own ($2).
SELECT
    summary_items.series, summary_items.step, summary_items.item AS index,
    summary_items.wall_time_ms AS time_ms, summary_items.body, summary_items.sha256,
    summary_items.size_bytes, summary_items.media_type
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS wanted (series, last_step, place)
JOIN summary_items ON summary_items.series = wanted.series AND summary_items.step <= wanted.last_step
WHERE summary_items.step = ANY($3::bigint[])
ORDER BY summary_items.step, wanted.place, summary_items.item
