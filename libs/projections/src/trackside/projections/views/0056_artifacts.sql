-- What tasks have saved, all versions. An artifact is forgotten if its stream forgot its digest after it was saved.
SELECT
    artifacts.stream_id, artifacts.task_id, artifacts.trial, artifacts.attempt, artifacts.placement, artifacts.number,
    artifacts.name, artifacts.version, artifacts.kind, artifacts.uri, artifacts.sha256, artifacts.size_bytes,
    artifacts.media_type, artifacts.step, artifacts.metadata,
    artifacts.stream_id || '/' || artifacts.task_id || '/' || artifacts.name || '@' || artifacts.version AS source,
    artifacts.log_partition, artifacts.log_offset,
    time_of(artifacts.saved_ms) AS saved_at,
    time_of(forgotten.first_ms) AS forgotten_at
FROM artifacts
LEFT JOIN LATERAL (
    SELECT min(forgotten_artifacts.forgotten_ms) AS first_ms
    FROM forgotten_artifacts
    WHERE forgotten_artifacts.stream_id = artifacts.stream_id
        AND forgotten_artifacts.sha256 = artifacts.sha256
        AND forgotten_artifacts.log_offset > artifacts.log_offset
) AS forgotten ON true
