-- Whether we may end sessions of a login, and see how old they are; nothing if there is no such login.
SELECT pg_has_role(oid, 'USAGE') FROM pg_roles WHERE rolname = $1
