SELECT
    batches.batch_id, batches.name, batches.status, batches.groups, batches.tasks,
    counted.groups_over, counted.submitted, counted.open AS open_tasks, counted.finished AS finished_tasks,
    counted.submitted - counted.open - counted.finished AS unfinished_tasks,
    batches.concurrency, batches.queue,
    time_of(batches.started_ms) AS started_at,
    time_of(batches.ended_ms) AS ended_at,
    (batches.ended_ms - batches.started_ms) / 1000.0 AS duration_s,
    batches.stop_reason, batches.spec
FROM batches
LEFT JOIN LATERAL (
    SELECT
        sum(groups.submitted)::integer AS submitted, sum(groups.open)::integer AS open,
        sum(groups.finished)::integer AS finished,
        (count(*) FILTER (WHERE groups.status IN ('DONE', 'STOPPED')))::integer AS groups_over
    FROM groups
    WHERE groups.batch_id = batches.batch_id
) AS counted ON true
