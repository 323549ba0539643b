-- Runs as Grafana's node graph draws them: an edge from each step to those that need it.
SELECT
    steps.run_id,
    needed.step || '.' || steps.step AS id,
    needed.step AS source,
    steps.step AS target,
    steps.stage AS mainstat
FROM steps
CROSS JOIN LATERAL jsonb_array_elements_text(steps.needs) AS needed (step)
