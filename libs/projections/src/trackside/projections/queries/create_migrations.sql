CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    digest text NOT NULL
)
