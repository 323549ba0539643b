SELECT pg_try_advisory_lock(hashtext('trackside_past'))
