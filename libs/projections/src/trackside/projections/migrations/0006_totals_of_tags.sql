-- Searches find the totals of a tag without a join or a sort: each row has what it is about, whether its attempt is
-- the newest one that has reported the tag, and the mean.

SET LOCAL statement_timeout = 0;

ALTER TABLE metric_totals ADD COLUMN task_id text COLLATE "C";
ALTER TABLE metric_totals ADD COLUMN attempt integer;
ALTER TABLE metric_totals ADD COLUMN tag text;
ALTER TABLE metric_totals ADD COLUMN kind text;
ALTER TABLE metric_totals ADD COLUMN newest boolean;

UPDATE metric_totals SET
    task_id = ranked.task_id, attempt = ranked.attempt, tag = ranked.tag, kind = ranked.kind,
    newest = ranked.newest, sum_value = trim_scale(metric_totals.sum_value)
FROM (
    SELECT
        metric_series.series, metric_series.task_id, metric_series.attempt, metric_series.tag, metric_series.kind,
        metric_series.attempt = max(metric_series.attempt) OVER (
            PARTITION BY metric_series.task_id, metric_series.tag, metric_series.kind
        ) AS newest
    FROM metric_series
    JOIN metric_totals AS counted ON counted.series = metric_series.series
) AS ranked
WHERE ranked.series = metric_totals.series;

-- Each batch updates the rows of its series: with room in their pages no index is written.
ALTER TABLE metric_totals SET (fillfactor = 80);

-- A mean that is too small for a float is 0, which Postgres refuses to round to.
ALTER TABLE metric_totals
    ALTER COLUMN task_id SET NOT NULL,
    ALTER COLUMN attempt SET NOT NULL,
    ALTER COLUMN tag SET NOT NULL,
    ALTER COLUMN kind SET NOT NULL,
    ALTER COLUMN newest SET NOT NULL,
    ADD COLUMN mean_value double precision GENERATED ALWAYS AS (
        CASE
            WHEN abs(sum_value / nullif(points - non_finite, 0)) < 1e-300 THEN 0
            ELSE (sum_value / nullif(points - non_finite, 0))::double precision
        END
    ) STORED;

CREATE INDEX metric_totals_of_tags ON metric_totals (hashtextextended(tag, 0), task_id, attempt);
