-- Evaluations of triggers that have changed a result or begun a stage, with the numbers that they saw.
SELECT
    job_id, evaluation, round, stage, result, fired, seen, command_id,
    to_timestamp(evaluated_ms / 1000.0) AS evaluated_at
FROM trigger_evaluations
