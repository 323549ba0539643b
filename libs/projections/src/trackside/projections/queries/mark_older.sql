-- Marks what a newer attempt, or session, has reported too, of the jobs and tags of the series $1.
UPDATE metric_totals SET newest = false
WHERE newest AND series IN (
    SELECT older.series
    FROM metric_totals AS given
    JOIN metric_totals AS newer
        ON hashtextextended(newer.tag, 0) = hashtextextended(given.tag, 0) AND newer.tag = given.tag
        AND newer.task_id = given.task_id AND newer.kind = given.kind
    JOIN metric_totals AS older
        ON hashtextextended(older.tag, 0) = hashtextextended(given.tag, 0) AND older.tag = given.tag
        AND older.task_id = given.task_id AND older.kind = given.kind AND older.attempt < newer.attempt
    WHERE given.series = ANY($1)
)
