-- Marks what a newer attempt, or session, has reported too, of the jobs and tags of the series $1.
-- Each of them looks for the others of its tag alone: whatever is known of the tables, no plan compares all rows.
UPDATE metric_totals SET newest = false
WHERE newest AND series = ANY(ARRAY(
    SELECT reported.series
    FROM unnest($1::bigint[]) AS new (series)
    CROSS JOIN LATERAL (
        SELECT task_id, tag, kind FROM metric_totals WHERE metric_totals.series = new.series LIMIT 1
    ) AS given
    CROSS JOIN LATERAL (
        SELECT series, attempt, max(attempt) OVER () AS newest_attempt
        FROM metric_totals
        WHERE hashtextextended(tag, 0) = hashtextextended(given.tag, 0) AND tag = given.tag
            AND task_id = given.task_id AND kind = given.kind
    ) AS reported
    WHERE reported.attempt < reported.newest_attempt
))
