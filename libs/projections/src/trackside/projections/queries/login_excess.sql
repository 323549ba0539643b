-- What the login of dashboards could do beyond reading the views, as grants of this database let it; and whether we
-- lack what limits it. Nothing if there is no such login.
SELECT what
FROM pg_roles CROSS JOIN LATERAL (VALUES
    ('temporary tables', has_database_privilege(pg_roles.oid, current_database(), 'TEMP')),
    ('large objects', has_function_privilege(pg_roles.oid, 'pg_catalog.lo_creat(integer)', 'EXECUTE')),
    ('numbered locks', has_function_privilege(pg_roles.oid, 'pg_catalog.pg_advisory_lock(bigint)', 'EXECUTE')),
    ('files for sorting without a limit', NOT EXISTS (
        SELECT FROM pg_db_role_setting, unnest(setconfig) AS setting
        WHERE setrole = pg_roles.oid AND setting LIKE 'temp_file_limit=%'
    )),
    ('sessions that we may not end', NOT pg_has_role(pg_roles.oid, 'USAGE'))
) AS found (what, is_so)
WHERE rolname = $1 AND is_so
