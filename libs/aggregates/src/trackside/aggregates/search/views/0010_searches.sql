SELECT
    search_id, name, status, task_type, tuner, assessor, direction, max_trials, concurrency, queue, seed,
    trials, ended_trials, trials - ended_trials AS running_trials,
    best_trial, best_value, best_parameters, pareto_front,
    to_timestamp(started_ms / 1000.0::float8) AS started_at,
    to_timestamp(ended_ms / 1000.0::float8) AS ended_at,
    (ended_ms - started_ms) / 1000.0 AS duration_s,
    stop_reason, failure, spec, trace_id
FROM searches
