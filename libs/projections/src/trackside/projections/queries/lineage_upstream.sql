-- Tasks whose artifacts a task was given, or the tasks that it was given those of. Where a use names its source, only
-- that one is followed; else all artifacts with its bytes. Level 1 is next to the task.
WITH RECURSIVE found (task_id, stream_id, via, level) AS (
    SELECT $1::text COLLATE "C", NULL::text COLLATE "C", NULL::text COLLATE "C", 0
    UNION
    SELECT artifacts.task_id, artifacts.stream_id, artifacts.name, found.level + 1
    FROM found
    JOIN artifact_uses ON artifact_uses.task_id = found.task_id
    JOIN artifacts ON artifacts.sha256 = artifact_uses.sha256
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
