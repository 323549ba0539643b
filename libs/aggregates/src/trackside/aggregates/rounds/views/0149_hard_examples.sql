-- What inference services have counted, a row per window.
SELECT
    job_id, service, window_number, round, inferences, hard_examples,
    hard_examples::double precision / nullif(inferences, 0) AS hard_share, uri, sha256,
    to_timestamp(reported_ms / 1000.0) AS reported_at
FROM hard_examples
