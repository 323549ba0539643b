-- Versions of pipelines, with the definition as it was given.
SELECT
    pipeline_versions.pipeline_id || '@' || pipeline_versions.version AS id,
    pipeline_versions.pipeline_id, pipeline_versions.version, pipeline_versions.sha256,
    pipeline_versions.name AS title, pipeline_versions.description, pipeline_versions.steps,
    pipeline_versions.definition,
    time_of(pipeline_versions.defined_ms) AS defined_at
FROM pipeline_versions
