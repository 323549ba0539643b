-- The views of dashboards that are ours, to be locked against readers.
SELECT quote_ident(schemaname) || '.' || quote_ident(viewname) AS name
FROM pg_views
WHERE schemaname = 'dashboards' AND pg_has_role(viewowner, 'USAGE')
