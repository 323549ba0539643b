SELECT
    search_id, name, status, task_type, tuner, assessor, direction, max_trials, concurrency, queue, seed,
    trials, ended_trials, trials - ended_trials AS running_trials,
    best_trial, best_value, best_parameters, pareto_front,
    time_of(started_ms) AS started_at,
    time_of(ended_ms) AS ended_at,
    (ended_ms - started_ms) / 1000.0 AS duration_s,
    stop_reason, failure, spec, trace_id
FROM searches
