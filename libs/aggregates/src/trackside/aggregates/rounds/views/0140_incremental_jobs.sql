-- Incremental jobs: the stage that each is in and what hinders it, where its samples are, and which model is live.
SELECT
    job_id, name, status, reason, dataset, model, round, ended_rounds, failed_rounds,
    stage, stage_state, time_of(stage_since_ms) AS stage_since, blocked, blocked_message,
    samples, waiting_samples, round_samples, evaluation_samples, new_evaluation_samples,
    waiting_range, evaluation_ranges, triggers,
    live_model, live_version, live_sha256, trained_version,
    update_number, update_version, update_open, was_live,
    waits_for_approval, time_of(approval_due_ms) AS approval_due,
    services, inferences, hard_examples, new_hard_examples,
    time_of(started_ms) AS started_at,
    time_of(last_round_ms) AS last_round_at,
    time_of(ended_ms) AS ended_at,
    (ended_ms - started_ms) / 1000.0 AS duration_s
FROM incremental_jobs
