SELECT nspname FROM pg_namespace WHERE starts_with(nspname, $1) ORDER BY nspname
