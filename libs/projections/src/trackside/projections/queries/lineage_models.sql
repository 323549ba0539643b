-- Versions of models with bytes that a task has saved.
SELECT
    model_versions.model_id, model_versions.version, model_versions.stage, model_versions.sha256,
    model_versions.framework, model_versions.format, model_versions.metrics,
    time_of(model_versions.published_ms) AS published_at
FROM model_versions
WHERE model_versions.task_id = $1
    OR model_versions.sha256 IN (SELECT artifacts.sha256 FROM artifacts WHERE artifacts.task_id = $1)
ORDER BY model_versions.model_id, model_versions.version
LIMIT $2
