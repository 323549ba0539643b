-- The login of dashboards. What a role is granted it inherits, but not the settings of sessions: they are repeated.
-- Settings are for honest clients: a session may change them, so nothing rests on them but `temp_file_limit`.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'trackside_dashboards') THEN
        CREATE ROLE trackside_dashboards;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;  -- another has just made it: roles belong to all databases
END
$$;
DO $$
BEGIN
    EXECUTE format(
        'ALTER ROLE trackside_dashboards LOGIN CONNECTION LIMIT 20 PASSWORD %L',
        current_setting('trackside.reader_verifier')
    );
    GRANT trackside_reader TO trackside_dashboards;
    ALTER ROLE trackside_dashboards RESET ALL;  -- the login may have set some itself
    EXECUTE format('ALTER ROLE trackside_dashboards IN DATABASE %I RESET ALL', current_database());
    ALTER ROLE trackside_dashboards SET default_transaction_read_only = on;
    ALTER ROLE trackside_dashboards SET statement_timeout = '15s';
    ALTER ROLE trackside_dashboards SET idle_in_transaction_session_timeout = '60s';
    ALTER ROLE trackside_dashboards SET search_path = dashboards;
    ALTER ROLE trackside_dashboards SET work_mem = '16MB';  -- with 4 MB, 100,000 trials are sorted on the disk
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        ALTER ROLE trackside_dashboards SET temp_file_limit = '1GB';  -- which only a superuser may change
    ELSIF NOT pg_has_role('trackside_dashboards', 'USAGE') THEN
        GRANT trackside_dashboards TO CURRENT_USER;  -- so that we may end its sessions
    END IF;
EXCEPTION WHEN internal_error OR unique_violation THEN
    NULL;  -- "tuple concurrently updated": another has just done the same
END
$$
