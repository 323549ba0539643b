SELECT owner, topic, partition, position FROM positions
