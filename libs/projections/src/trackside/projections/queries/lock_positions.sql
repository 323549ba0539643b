SELECT topic, partition, position FROM positions WHERE owner = $1 AND topic = ANY($2)
ORDER BY topic, partition FOR UPDATE
