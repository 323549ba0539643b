-- Pipelines with their current version, and how many runs they have had. `name` is the id.
SELECT
    pipelines.pipeline_id, pipelines.pipeline_id AS name, pipelines.status, pipelines.version,
    versions.name AS title, versions.description, versions.steps, versions.sha256,
    pipelines.max_runs, pipelines.runs, pipelines.queued_runs, pipelines.open_runs,
    time_of(pipelines.defined_ms) AS started_at,
    time_of(pipelines.retired_ms) AS ended_at,
    (pipelines.retired_ms - pipelines.defined_ms) / 1000.0 AS duration_s,
    pipelines.retire_reason
FROM pipelines
JOIN pipeline_versions AS versions
    ON versions.pipeline_id = pipelines.pipeline_id AND versions.version = pipelines.version
