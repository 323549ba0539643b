-- Runs as Grafana's node graph draws them: a node for each step.
SELECT
    steps.run_id,
    steps.step AS id,
    steps.step AS title,
    steps.what AS subtitle,
    steps.state AS mainstat,
    CASE
        WHEN steps.items > 1 THEN (steps.begun - steps.open) || '/' || steps.items
        WHEN steps.ended_at IS NOT NULL THEN round(coalesce(steps.took_s, 0)::numeric, 1) || ' s'
    END AS secondarystat,
    (steps.state IN ('succeeded', 'cached'))::integer AS arc__succeeded,
    (steps.state IN ('failed', 'aborted', 'timed_out', 'lost'))::integer AS arc__failed,
    (steps.state IN ('ready', 'queued', 'running'))::integer AS arc__running,
    (steps.state IN ('pending', 'skipped', 'omitted'))::integer AS arc__waiting,
    CASE
        WHEN steps.state IN ('succeeded', 'cached') THEN 'blue'
        WHEN steps.state IN ('failed', 'aborted', 'timed_out', 'lost') THEN 'red'
        WHEN steps.state = 'running' THEN 'green'
        ELSE 'lightsteelblue'
    END AS color,
    steps.parameters AS detail__parameters
FROM dashboards.steps AS steps
