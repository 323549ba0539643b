-- Schedules of pipelines: when each is next, and what came of the last time.
SELECT
    schedules.pipeline_id, schedules.schedule, schedules.status, schedules.cron, schedules.timezone,
    schedules.spec -> 'on' ->> 'event' AS event, schedules.spec -> 'on' ->> 'stream' AS event_stream,
    schedules.spec ->> 'overlap' AS overlap, schedules.spec ->> 'catch_up' AS catch_up,
    schedules.spec, schedules.fires, schedules.skips,
    time_of(schedules.next_ms) AS next_at,
    time_of(schedules.fired_ms) AS fired_at,
    schedules.last_run, schedules.last_skip, schedules.last_message,
    time_of(schedules.created_ms) AS created_at,
    schedules.reason
FROM schedules
