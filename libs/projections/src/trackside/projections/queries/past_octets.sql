SELECT substring(octets FROM $4::integer FOR $5::integer) FROM snapshots WHERE topic = $1 AND partition = $2 AND position = $3
