-- Incremental jobs: the stage that each is in and what hinders it, where its samples are, and which model is live.
SELECT
    job_id, name, status, reason, dataset, model, round, ended_rounds, failed_rounds,
    stage, stage_state, to_timestamp(stage_since_ms / 1000.0) AS stage_since, blocked, blocked_message,
    samples, waiting_samples, round_samples, evaluation_samples, new_evaluation_samples,
    waiting_range, evaluation_ranges, triggers,
    live_model, live_version, live_sha256, trained_version,
    update_number, update_version, update_open, was_live,
    waits_for_approval, to_timestamp(approval_due_ms / 1000.0) AS approval_due,
    services, inferences, hard_examples, new_hard_examples,
    to_timestamp(started_ms / 1000.0) AS started_at,
    to_timestamp(last_round_ms / 1000.0) AS last_round_at,
    to_timestamp(ended_ms / 1000.0) AS ended_at,
    (ended_ms - started_ms) / 1000.0 AS duration_s
FROM incremental_jobs
