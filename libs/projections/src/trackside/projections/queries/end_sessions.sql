-- Ends the sessions of a login whose statement or transaction has lasted over $2 seconds, or which has a numbered lock:
-- that outlasts transactions, and is memory that all sessions share. $3: those in other databases, too.
SELECT pid, pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE usename = $1 AND backend_type = 'client backend' AND ($3 OR datname = current_database()) AND (
    extract(epoch FROM clock_timestamp() - xact_start) > $2
    OR state = 'active' AND extract(epoch FROM clock_timestamp() - query_start) > $2
    OR pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')
)
