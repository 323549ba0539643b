-- The definitions that each incremental job has had; 0 is the first one.
SELECT job_id, change, command_id, spec, to_timestamp(defined_ms / 1000.0) AS defined_at
FROM job_definitions
