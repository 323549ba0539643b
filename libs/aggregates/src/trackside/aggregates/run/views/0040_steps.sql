-- The steps of runs, in the order of their definitions; a step starts when its first task is queued.
SELECT
    steps.run_id, steps.step, steps.number, steps.kind, steps.what, steps.state, steps.generation, steps.needs,
    steps.stage, steps.weight, steps.items, steps.begun, steps.open, steps.ends, steps.end_kind, steps.resolved,
    steps.error, steps.reason,
    to_timestamp(steps.ready_ms / 1000.0) AS ready_at,
    to_timestamp(steps.ended_ms / 1000.0) AS ended_at,
    CASE WHEN steps.ready_ms IS NOT NULL THEN (steps.ended_ms - steps.ready_ms) / 1000.0 END AS duration_s
FROM steps
