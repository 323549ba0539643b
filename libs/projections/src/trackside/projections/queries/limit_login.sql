-- Takes from all users of this server what the login of dashboards would have as one of them: temporary tables, large
-- objects, numbered locks, writing into the WAL, and other databases. For an owner of the database, or a superuser.
DO $$
DECLARE
    each record;
    is_super boolean := (SELECT rolsuper FROM pg_roles WHERE rolname = current_user);
BEGIN
    IF pg_has_role((SELECT datdba FROM pg_database WHERE datname = current_database()), 'USAGE') THEN
        EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    END IF;
    IF NOT is_super THEN
        RETURN;
    END IF;
    FOR each IN
        SELECT datname FROM pg_database
        WHERE datname IN ('postgres', 'template1') AND datname <> current_database()
            AND has_database_privilege('trackside_dashboards', oid, 'CONNECT')
    LOOP
        EXECUTE format('REVOKE CONNECT, TEMPORARY ON DATABASE %I FROM PUBLIC', each.datname);
    END LOOP;
    FOR each IN
        SELECT oid::regprocedure AS name FROM pg_proc
        WHERE pronamespace = 'pg_catalog'::regnamespace AND (
            proname ~ '^pg_(try_)?advisory_(xact_)?lock' OR proname ~ '^lo_(creat|from_bytea|put|truncate)'
            OR proname IN ('lowrite', 'pg_logical_emit_message', 'pg_export_snapshot')
        ) AND has_function_privilege('trackside_dashboards', oid, 'EXECUTE')
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', each.name);
    END LOOP;
EXCEPTION WHEN internal_error OR unique_violation THEN
    NULL;  -- "tuple concurrently updated": another has just done the same
END
$$
