SELECT topic, partition, max(position) AS position FROM {schema}.positions WHERE position > 0
GROUP BY topic, partition ORDER BY topic, partition
