DELETE FROM positions WHERE owner = $1
