-- The definitions that each incremental job has had; 0 is the first one.
SELECT job_id, change, command_id, spec, time_of(defined_ms) AS defined_at
FROM job_definitions
