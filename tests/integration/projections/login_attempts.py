"""What the login of dashboards tries: what is refused, and what Postgres permits to all, without effect."""

REFUSED = r"""
INSERT INTO dashboards.searches (search_id) VALUES ('x')
UPDATE dashboards.tasks SET task_id = 'x'
DELETE FROM dashboards.tasks
TRUNCATE trackside.tasks
SELECT * FROM trackside.tasks
SELECT * FROM trackside_keys.stream_keys
SELECT * FROM trackside_past.snapshots
SELECT query_to_xml('SELECT * FROM trackside.tasks', true, false, '')
SELECT * FROM dashboards.searches FOR UPDATE
SELECT * FROM dashboards.searches FOR KEY SHARE
LOCK TABLE dashboards.searches IN ROW SHARE MODE
LOCK TABLE dashboards.searches IN ACCESS EXCLUSIVE MODE
LOCK TABLE trackside.migrations IN ACCESS SHARE MODE
CREATE TABLE dashboards.x (a int)
CREATE TABLE public.x (a int)
CREATE TABLE trackside.x (a int)
CREATE TEMP TABLE x (a int)
CREATE TEMP VIEW x AS SELECT 1
CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'
CREATE FUNCTION dashboards.f() RETURNS int LANGUAGE sql AS 'SELECT 1'
CREATE SCHEMA x
CREATE DATABASE x
CREATE ROLE x
CREATE PUBLICATION x
CREATE SUBSCRIPTION x CONNECTION 'host=x' PUBLICATION y
CREATE TABLESPACE x LOCATION '/tmp'
CREATE EVENT TRIGGER x ON ddl_command_start EXECUTE FUNCTION f()
CREATE COLLATION dashboards.x FROM "C"
CREATE RULE x AS ON SELECT TO dashboards.searches DO INSTEAD SELECT 1
CREATE TRIGGER x INSTEAD OF INSERT ON dashboards.searches EXECUTE FUNCTION f()
CREATE STATISTICS x ON a, b FROM trackside.tasks
COPY (SELECT 1) TO '/tmp/x'
COPY (SELECT 1) TO PROGRAM 'id'
COPY dashboards.tasks FROM '/tmp/x'
SELECT pg_read_file('/etc/passwd')
SELECT pg_read_binary_file('/etc/passwd')
SELECT pg_stat_file('/etc/passwd')
SELECT pg_ls_dir('.')
SELECT pg_ls_logdir()
SELECT pg_ls_waldir()
SELECT pg_current_logfile()
SELECT lo_import('/etc/passwd')
SELECT lo_export(1, '/tmp/x')
SELECT lo_creat(-1)
SELECT lo_create(0)
SELECT lo_from_bytea(0, 'x')
SELECT lo_put(1, 0, 'x')
SELECT lowrite(1, 'x')
SELECT * FROM pg_largeobject
SELECT rolpassword FROM pg_authid
SELECT passwd FROM pg_shadow
SELECT stavalues1::text FROM pg_statistic
SELECT subconninfo FROM pg_subscription
SELECT umoptions FROM pg_user_mapping
SELECT * FROM pg_hba_file_rules
SELECT * FROM pg_file_settings
SHOW data_directory
SHOW hba_file
SELECT pg_cancel_backend(pid) FROM others
SELECT pg_terminate_backend(pid) FROM others
SELECT pg_reload_conf()
SELECT pg_rotate_logfile()
SELECT pg_switch_wal()
SELECT pg_promote()
SELECT pg_backup_start('x')
SELECT pg_create_restore_point('x')
SELECT pg_create_physical_replication_slot('x')
SELECT pg_create_logical_replication_slot('x', 'test_decoding')
SELECT pg_replication_origin_create('x')
SELECT pg_logical_emit_message(false, 'x', 'x')
SELECT pg_export_snapshot()
SELECT pg_stat_reset()
SELECT pg_log_backend_memory_contexts(pg_backend_pid())
SELECT pg_advisory_lock(1)
SELECT pg_advisory_lock_shared(1, 2)
SELECT pg_advisory_xact_lock(1)
SELECT pg_try_advisory_lock(1)
SELECT pg_try_advisory_lock(1, 2)
SELECT pg_try_advisory_lock_shared(1)
SELECT pg_try_advisory_xact_lock(1)
PREPARE TRANSACTION 'x'
LOAD 'auto_explain'
SET ROLE postgres
SET SESSION AUTHORIZATION postgres
SET session_replication_role = replica
SET temp_file_limit = -1
SET log_statement = 'none'
SET track_activities = off
ALTER SYSTEM SET work_mem = '1GB'
ALTER ROLE postgres PASSWORD 'x'
ALTER ROLE trackside_reader SET statement_timeout = 1
ALTER ROLE trackside_reader NOLOGIN
ALTER ROLE trackside_dashboards SUPERUSER
ALTER ROLE trackside_dashboards CREATEDB
ALTER ROLE trackside_dashboards NOLOGIN
ALTER ROLE trackside_dashboards CONNECTION LIMIT -1
ALTER ROLE trackside_dashboards VALID UNTIL '2000-01-01'
ALTER ROLE trackside_dashboards SET temp_file_limit = -1
ALTER ROLE trackside_dashboards RESET temp_file_limit
GRANT postgres TO trackside_dashboards
REASSIGN OWNED BY trackside_reader TO postgres
DROP ROLE trackside_reader
DROP ROLE trackside_dashboards
DROP VIEW dashboards.searches
DROP SCHEMA dashboards CASCADE
ALTER VIEW dashboards.searches RENAME TO x
ALTER VIEW dashboards.searches OWNER TO trackside_dashboards
COMMENT ON VIEW dashboards.searches IS 'x'
COMMENT ON ROLE trackside_dashboards IS 'x'
COMMENT ON SCHEMA trackside IS 'x'
VACUUM trackside.tasks
ANALYZE trackside.tasks
REINDEX TABLE trackside.tasks
REINDEX SYSTEM postgres
CHECKPOINT
SELECT dblink('host=localhost', 'SELECT 1')
CREATE EXTENSION dblink
""".strip().splitlines()

WITHOUT_EFFECT = """
GRANT SELECT ON dashboards.searches TO PUBLIC
REVOKE SELECT ON dashboards.searches FROM trackside_reader
DROP OWNED BY trackside_reader
DROP OWNED BY trackside_dashboards
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC
ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM PUBLIC
ALTER ROLE trackside_dashboards RESET ALL
ALTER ROLE trackside_dashboards SET statement_timeout = 0
SET ROLE trackside_reader
SET default_transaction_read_only = off
SET statement_timeout = 0
CLUSTER
LISTEN trackside_changes
NOTIFY trackside_changes, 'x'
NOTIFY trackside_changes, '{"schema":"trackside","owner":"x","positions":{"x-1":"x"},"streams":[[]]}'
DO $$ BEGIN PERFORM 1; END $$
SELECT txid_current()
SELECT pg_advisory_unlock_all()
""".strip().splitlines()
"""What Postgres permits to each user: it changes nothing of ours."""
