INSERT INTO migrations (number, name, digest) VALUES ($1, $2, $3)
ON CONFLICT (number) DO UPDATE SET name = excluded.name, digest = excluded.digest
