-- The gates of runs that were opened: open, approved, rejected, expired, or closed with their run.
SELECT
    gates.run_id, gates.step, gates.message, gates.form, gates.state, gates.actor, gates.inputs, gates.reason,
    time_of(gates.opened_ms) AS opened_at,
    time_of(gates.due_ms) AS due_at,
    time_of(gates.decided_ms) AS decided_at
FROM gates
