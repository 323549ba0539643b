SELECT position FROM snapshots WHERE topic = $1 AND partition = $2 ORDER BY position
