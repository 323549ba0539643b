-- The role of dashboards and of the console: it can only read the views, with a time limit, so it blocks no writer.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'trackside_reader') THEN
        CREATE ROLE trackside_reader NOLOGIN CONNECTION LIMIT 5;
        ALTER ROLE trackside_reader SET default_transaction_read_only = on;
        ALTER ROLE trackside_reader SET statement_timeout = '15s';
        ALTER ROLE trackside_reader SET idle_in_transaction_session_timeout = '60s';
        ALTER ROLE trackside_reader SET search_path = dashboards;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$
