SELECT
    stream_id, command_id, command_type, status, code, path, message, publications, publisher,
    time_of(received_ms) AS received_at,
    time_of(answered_ms) AS answered_at
FROM commands
