SELECT
    stream_id, command_id, command_type, status, code, path, message, publications, publisher,
    to_timestamp(received_ms / 1000.0) AS received_at,
    to_timestamp(answered_ms / 1000.0) AS answered_at
FROM commands
