-- Evaluations of triggers that have changed a result or begun a stage, with the numbers that they saw.
SELECT
    job_id, evaluation, round, stage, result, fired, seen, command_id,
    time_of(evaluated_ms) AS evaluated_at
FROM trigger_evaluations
