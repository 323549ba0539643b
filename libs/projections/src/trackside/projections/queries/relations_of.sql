-- The tables and views of the schemas whose names begin with $1.
SELECT quote_ident(nspname) || '.' || quote_ident(relname) AS name
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE starts_with(nspname, $1) AND relkind IN ('r', 'v')
