-- Where the samples of a job are: in a round that goes on, used by one that has completed, released by one that has
-- failed, or waiting for the next one. The first sample is 0, the last of a range is not included.
SELECT
    sample_ranges.job_id, sample_ranges.round, sample_ranges.use, sample_ranges.number,
    sample_ranges.begin_sample, sample_ranges.end_sample, sample_ranges.samples,
    CASE
        WHEN rounds.status = 'running' THEN 'in round'
        WHEN rounds.status = 'failed' AND sample_ranges.use = 'train' THEN 'released'
        ELSE 'used'
    END AS state
FROM sample_ranges
JOIN rounds ON rounds.job_id = sample_ranges.job_id AND rounds.round = sample_ranges.round
UNION ALL
SELECT
    job_id, NULL, 'train', 1, (waiting_range ->> 0)::bigint, (waiting_range ->> 1)::bigint, waiting_samples, 'waiting'
FROM incremental_jobs
WHERE waiting_samples > 0
