CREATE SCHEMA IF NOT EXISTS trackside_keys;
CREATE TABLE IF NOT EXISTS trackside_keys.stream_keys (
    public_key bytea PRIMARY KEY,
    stream text NOT NULL,
    private_key bytea NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS stream_keys_by_stream ON trackside_keys.stream_keys (stream);
