-- The gates of runs that were opened: open, approved, rejected, expired, or closed with their run.
SELECT
    gates.run_id, gates.step, gates.message, gates.form, gates.state, gates.actor, gates.inputs, gates.reason,
    to_timestamp(gates.opened_ms / 1000.0) AS opened_at,
    to_timestamp(gates.due_ms / 1000.0) AS due_at,
    to_timestamp(gates.decided_ms / 1000.0) AS decided_at
FROM gates
