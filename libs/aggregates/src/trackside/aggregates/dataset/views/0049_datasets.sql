-- Datasets: how far each was observed, why none is taken from one, the task that watches it, and what that waits for.
-- `name` is the id.
SELECT
    datasets.dataset_id, datasets.dataset_id AS name, datasets.url, datasets.format, datasets.status, datasets.reason,
    datasets.lines, datasets.bytes, datasets.sha256, datasets.metrics, datasets.watcher, datasets.credential,
    datasets.queue, datasets.look_s, datasets.drift, datasets.description,
    time_of(datasets.registered_ms) AS started_at,
    time_of(datasets.status_ms) AS status_at,
    time_of(datasets.observed_ms) AS observed_at,
    time_of(datasets.deleted_ms) AS ended_at,
    (datasets.deleted_ms - datasets.registered_ms) / 1000.0 AS duration_s,
    CASE WHEN watchers.state = 'ready' THEN watchers.detail ->> 'waits_for' END AS waits_for
FROM datasets
LEFT JOIN dashboards.services AS watchers ON
    watchers.stream_id = datasets.dataset_id AND watchers.task_id = datasets.watcher
