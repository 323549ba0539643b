-- The steps of series ($1) that have values, each series up to a step of its own ($2), from $3 to $4, between
-- times $5 and $6.
SELECT DISTINCT summary_items.step
FROM unnest($1::bigint[], $2::bigint[]) AS wanted (series, last_step)
JOIN summary_items ON summary_items.series = wanted.series AND summary_items.step <= wanted.last_step
WHERE summary_items.step BETWEEN $3 AND $4 AND summary_items.wall_time_ms BETWEEN $5 AND $6
ORDER BY summary_items.step
