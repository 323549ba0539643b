-- What the time of each trial went into: waiting for its first device, and loading and training in its first attempt.
SELECT
    trials.search_id, trials.trial, trials.task_id, trials.status,
    time_of(trials.ended_ms) AS ended_at,
    (attempts.assigned_ms - trials.suggested_ms) / 1000.0::double precision AS queued_s,
    attempts.load_time_ms / 1000.0::double precision AS load_s, attempts.train_time_ms / 1000.0::double precision AS train_s,
    trials.ended_ms
FROM trials
JOIN attempts ON attempts.task_id = trials.task_id AND attempts.stream_id = trials.search_id AND attempts.attempt = 1
