-- Versions of models: the artifact, what is known of it, and the attempt of a task that has saved it.
SELECT
    model_versions.model_id || '@' || model_versions.version AS id,
    model_versions.model_id, model_versions.version, model_versions.stage,
    model_versions.uri, model_versions.sha256, model_versions.size_bytes, model_versions.media_type,
    model_versions.credential, model_versions.source, model_versions.framework, model_versions.format,
    model_versions.devices, model_versions.tags, model_versions.labels, model_versions.config,
    model_versions.comment, model_versions.stream_id, model_versions.task_id, model_versions.attempt,
    model_versions.parameters, model_versions.metrics, model_versions.inputs,
    time_of(model_versions.published_ms) AS published_at
FROM model_versions
