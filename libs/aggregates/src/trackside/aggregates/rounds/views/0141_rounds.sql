-- Rounds of incremental jobs: how many samples they had, the metrics of the trained and of the deployed model, and
-- whether the trained one was deployed, with the reason. A round begins when its trigger fires.
SELECT
    rounds.job_id, rounds.round, rounds.status, rounds.stage, rounds.train_samples, rounds.eval_samples,
    rounds.base_model, rounds.base_version, rounds.version, rounds.sha256,
    rounds.trained, rounds.deployed_metrics, rounds.deltas,
    rounds.deploy, rounds.decision_reason, rounds.conditions,
    CASE
        WHEN rounds.approval IS NULL AND rounds.asks AND rounds.ended_ms IS NULL THEN 'waiting'
        ELSE rounds.approval
    END AS approval,
    rounds.actor, rounds.deployed, rounds.reason,
    time_of(rounds.fired_ms) AS began_at,
    time_of(rounds.started_ms) AS samples_written_at,
    time_of(rounds.decided_ms) AS decided_at,
    time_of(rounds.ended_ms) AS ended_at,
    (rounds.ended_ms - rounds.fired_ms) / 1000.0 AS duration_s,
    (
        SELECT time_of(max(deployments.deployed_ms))
        FROM deployments
        WHERE deployments.job_id = rounds.job_id AND deployments.round = rounds.round
    ) AS deployed_at
FROM rounds
