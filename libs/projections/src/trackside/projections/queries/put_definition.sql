INSERT INTO definitions (owner, generation, digest, tables) VALUES ($1, $2, $3, $4)
ON CONFLICT (owner) DO UPDATE SET
    generation = excluded.generation,
    digest = excluded.digest,
    tables = excluded.tables
