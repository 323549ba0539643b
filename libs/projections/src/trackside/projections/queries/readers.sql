-- Other transactions that hold a snapshot of this database now, except those that wait for us or for their client.
SELECT virtualtransaction
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'virtualxid' AND granted AND pid <> pg_backend_pid()
    AND backend_xmin IS NOT NULL AND datname = current_database()
    AND NOT pg_backend_pid() = ANY(pg_blocking_pids(pid))
