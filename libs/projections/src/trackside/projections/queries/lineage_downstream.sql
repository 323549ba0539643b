-- Tasks that were given artifacts of a task, or of those tasks. Level 1 is next to the task.
WITH RECURSIVE found (task_id, stream_id, via, level) AS (
    SELECT $1::text COLLATE "C", NULL::text COLLATE "C", NULL::text COLLATE "C", 0
    UNION
    SELECT artifact_uses.task_id, artifact_uses.stream_id, artifacts.name, found.level + 1
    FROM found
    JOIN artifacts ON artifacts.task_id = found.task_id
    JOIN artifact_uses ON artifact_uses.sha256 = artifacts.sha256
    WHERE found.level < $2
        AND artifact_uses.source IN (
            '', artifacts.stream_id || '/' || artifacts.task_id || '/' || artifacts.name || '@' || artifacts.version
        )
)
SELECT task_id AS job_id, stream_id AS stream, via, min(level) AS level
FROM found
WHERE level > 0
GROUP BY task_id, stream_id, via
ORDER BY min(level), task_id, via
LIMIT $3
