-- What inference services have counted, a row per window.
SELECT
    job_id, service, window_number, round, inferences, hard_examples,
    hard_examples::double precision / nullif(inferences, 0) AS hard_share, uri, sha256,
    time_of(reported_ms) AS reported_at
FROM hard_examples
