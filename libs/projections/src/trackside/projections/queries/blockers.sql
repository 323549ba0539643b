-- Who keeps a lock of one of these relations, other than we.
SELECT DISTINCT pid, usename FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE granted AND locktype = 'relation' AND pid <> pg_backend_pid() AND database = (
    SELECT oid FROM pg_database WHERE datname = current_database()
) AND relation IN (SELECT to_regclass(name)::oid FROM unnest($1::text[]) AS name)
ORDER BY pid
