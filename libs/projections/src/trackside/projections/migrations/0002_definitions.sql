-- By what the tables of an owner were made whose rows come from the log alone; a later release has a higher
-- generation.

CREATE TABLE definitions (
    owner text PRIMARY KEY,
    generation integer NOT NULL,
    digest text NOT NULL,
    tables text[] NOT NULL
);
