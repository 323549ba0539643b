-- Datasets: how far each was observed, why none is taken from one, and the task that watches it. `name` is the id.
SELECT
    datasets.dataset_id, datasets.dataset_id AS name, datasets.url, datasets.format, datasets.status, datasets.reason,
    datasets.lines, datasets.bytes, datasets.sha256, datasets.metrics, datasets.watcher, datasets.credential,
    datasets.queue, datasets.look_s, datasets.drift, datasets.description,
    to_timestamp(datasets.registered_ms / 1000.0) AS started_at,
    to_timestamp(datasets.status_ms / 1000.0) AS status_at,
    to_timestamp(datasets.observed_ms / 1000.0) AS observed_at,
    to_timestamp(datasets.deleted_ms / 1000.0) AS ended_at,
    (datasets.deleted_ms - datasets.registered_ms) / 1000.0 AS duration_s
FROM datasets
