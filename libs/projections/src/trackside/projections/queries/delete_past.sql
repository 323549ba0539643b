DELETE FROM snapshots WHERE topic = $1 AND partition = $2 AND position = $3
