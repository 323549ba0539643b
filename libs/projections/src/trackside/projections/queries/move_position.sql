UPDATE positions SET position = $4 WHERE owner = $1 AND topic = $2 AND partition = $3
