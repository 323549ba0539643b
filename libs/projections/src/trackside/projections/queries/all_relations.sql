-- The views of dashboards, to be locked first, and all tables of the schema.
SELECT quote_ident(schemaname) || '.' || quote_ident(viewname) AS name
FROM pg_views
WHERE schemaname = 'dashboards' AND pg_has_role(viewowner, 'USAGE')
UNION ALL
SELECT quote_ident(schemaname) || '.' || quote_ident(tablename)
FROM pg_tables
WHERE schemaname = current_schema()
