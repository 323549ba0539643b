-- What readers of the tables lock: the views of dashboards, to be locked first, and the tables that exist.
WITH found AS (
    SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) AS name
    FROM pg_tables WHERE schemaname = current_schema() AND tablename = ANY($1)
)
SELECT quote_ident(schemaname) || '.' || quote_ident(viewname) AS name
FROM pg_views
WHERE schemaname = 'dashboards' AND pg_has_role(viewowner, 'USAGE') AND EXISTS (SELECT FROM found)
UNION ALL
SELECT name FROM found
