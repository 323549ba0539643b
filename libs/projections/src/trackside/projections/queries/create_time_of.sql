-- A time in ms since 1970, of any number: what Postgres has no time for becomes its first or last one, so that one
-- value of a row is no error of a whole query. The two are so near that their difference is an interval.
CREATE OR REPLACE FUNCTION time_of(ms bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN ms BETWEEN -200000000000000 AND 9000000000000000 THEN to_timestamp(ms / 1000.0::float8)
        WHEN ms > 0 THEN to_timestamp(9000000000000)
        WHEN ms < 0 THEN to_timestamp(-200000000000)
    END
$$
