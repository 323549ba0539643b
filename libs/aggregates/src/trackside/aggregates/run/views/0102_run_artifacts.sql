-- The artifacts and models of steps that their runs show as their own, under the names that the definitions give.
-- Where the pattern ends in `*`, an artifact keeps its own name.
SELECT
    mirrors.run_id, mirrors.step, artifacts.task_id, mirrors.mirrored_as,
    CASE WHEN mirrors.is_prefix THEN artifacts.name ELSE mirrors.name END AS name,
    artifacts.name AS artifact, artifacts.version, artifacts.kind, artifacts.uri, artifacts.sha256,
    artifacts.size_bytes, artifacts.source, artifacts.saved_at, artifacts.forgotten_at
FROM (
    SELECT
        runs.run_id, spec.step ->> 'name' AS step, rtrim(mirror.pattern, '*') AS pattern, mirror.name,
        right(mirror.pattern, 1) = '*' AS is_prefix, kinds.mirrored_as
    FROM runs
    CROSS JOIN LATERAL jsonb_array_elements(runs.spec -> 'steps') AS spec (step)
    CROSS JOIN (VALUES ('artifact', 'artifacts'), ('model', 'models')) AS kinds (mirrored_as, field)
    CROSS JOIN LATERAL jsonb_each_text(spec.step -> 'mirror' -> kinds.field) AS mirror (pattern, name)
) AS mirrors
JOIN tasks ON tasks.stream_id = mirrors.run_id AND tasks.name = mirrors.step
JOIN dashboards.artifacts AS artifacts ON
    artifacts.stream_id = tasks.stream_id AND artifacts.task_id = tasks.task_id
    AND (mirrors.mirrored_as = 'artifact' OR artifacts.kind = 'model')
    AND CASE
        WHEN mirrors.is_prefix THEN starts_with(artifacts.name, mirrors.pattern)
        ELSE artifacts.name = mirrors.pattern
    END
