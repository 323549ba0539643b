-- The columns of a table that is found by the search path.
SELECT attname FROM pg_attribute
WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped
ORDER BY attnum
