-- Who Grafana is in Postgres: it sees the views of schema dashboards, and can't hold anything up.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'grafana') THEN
        CREATE ROLE grafana LOGIN PASSWORD 'grafana' IN ROLE trackside_reader CONNECTION LIMIT 5;
        ALTER ROLE grafana SET default_transaction_read_only = on;
        ALTER ROLE grafana SET statement_timeout = '15s';
        ALTER ROLE grafana SET idle_in_transaction_session_timeout = '60s';
        ALTER ROLE grafana SET search_path = dashboards;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;  -- another has just made it: roles are of all databases
END
$$;
