SELECT topic, partition, position FROM positions WHERE owner = $1 ORDER BY topic, partition
