SELECT obj_description(to_regnamespace($1::text), 'pg_namespace')
