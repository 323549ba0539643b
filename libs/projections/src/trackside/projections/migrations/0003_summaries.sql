-- Values of all kinds: which points aren't finite, values that are no numbers, and what is counted of each series
-- and job, so that a list or a search reads no points.

ALTER TABLE metric_series ADD COLUMN kind text NOT NULL DEFAULT 'scalar';

-- 1 NaN, 2 infinity, 3 minus infinity, where value is NULL; NULL too in a point whose record didn't say.
ALTER TABLE metric_points ADD COLUMN non_finite smallint;

CREATE TABLE summary_items (
    series bigint NOT NULL,
    step bigint NOT NULL,
    item integer NOT NULL,
    wall_time_ms bigint NOT NULL,
    body jsonb NOT NULL,
    sha256 text,
    size_bytes bigint,
    media_type text,
    PRIMARY KEY (series, step, item)
);

CREATE TABLE metric_totals (
    series bigint PRIMARY KEY,
    points bigint NOT NULL,
    first_step bigint NOT NULL,
    last_step bigint NOT NULL,
    last_value double precision,
    last_non_finite smallint,
    min_value double precision,
    max_value double precision,
    sum_value numeric NOT NULL,
    non_finite bigint NOT NULL,
    first_ms bigint NOT NULL,
    last_ms bigint NOT NULL
);

CREATE TABLE summary_briefs (
    job_id text COLLATE "C" PRIMARY KEY,
    stream_id text NOT NULL,
    points bigint NOT NULL,
    items bigint NOT NULL,
    last_step bigint,
    first_ms bigint NOT NULL,
    last_ms bigint NOT NULL
);

CREATE INDEX summary_briefs_newest ON summary_briefs (last_ms DESC, job_id);

SET LOCAL statement_timeout = 0;

INSERT INTO metric_totals (
    series, points, first_step, last_step, last_value, last_non_finite, min_value, max_value, sum_value,
    non_finite, first_ms, last_ms
)
SELECT
    counted.series, counted.points, counted.first_step, counted.last_step, last.value, last.non_finite,
    counted.min_value, counted.max_value, counted.sum_value, counted.non_finite, counted.first_ms,
    counted.last_ms
FROM (
    SELECT
        series, count(*) AS points, min(step) AS first_step, max(step) AS last_step, min(value) AS min_value,
        max(value) AS max_value, coalesce(sum(value::numeric), 0) AS sum_value,
        count(*) FILTER (WHERE value IS NULL) AS non_finite,
        min(wall_time_ms) AS first_ms, max(wall_time_ms) AS last_ms
    FROM metric_points
    GROUP BY series
) AS counted
JOIN metric_points AS last ON last.series = counted.series AND last.step = counted.last_step;

INSERT INTO summary_briefs (job_id, stream_id, points, items, last_step, first_ms, last_ms)
SELECT
    metric_series.task_id, min(metric_series.stream_id),
    coalesce(sum(metric_totals.points) FILTER (WHERE metric_series.kind = 'scalar'), 0),
    coalesce(sum(metric_totals.points) FILTER (WHERE metric_series.kind <> 'scalar'), 0),
    max(metric_totals.last_step) FILTER (WHERE NOT starts_with(metric_series.tag, 'system/')),
    min(metric_totals.first_ms), max(metric_totals.last_ms)
FROM metric_series
JOIN metric_totals ON metric_totals.series = metric_series.series
GROUP BY metric_series.task_id;
