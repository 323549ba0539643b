-- Models with the number of their versions, and which of them are in use. `name` is the id.
SELECT
    models.model_id, models.model_id AS name, models.status, models.description, models.tags, models.labels,
    models.versions, models.staging, models.production,
    time_of(models.registered_ms) AS started_at,
    time_of(models.archived_ms) AS ended_at,
    (models.archived_ms - models.registered_ms) / 1000.0 AS duration_s,
    models.archive_reason
FROM models
