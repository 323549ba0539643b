SELECT position FROM positions WHERE owner = $1 AND topic = $2 AND partition = $3 FOR UPDATE
