CREATE SCHEMA IF NOT EXISTS trackside_past;
CREATE TABLE IF NOT EXISTS trackside_past.snapshots (
    topic text NOT NULL,
    partition integer NOT NULL,
    position bigint NOT NULL,
    octets bytea NOT NULL,
    PRIMARY KEY (topic, partition, position)
);
ALTER TABLE trackside_past.snapshots ALTER COLUMN octets SET STORAGE EXTERNAL
