-- Schedules of pipelines: when each is next, and what came of the last time.
SELECT
    schedules.pipeline_id, schedules.schedule, schedules.status, schedules.cron, schedules.timezone,
    schedules.spec -> 'on' ->> 'event' AS event, schedules.spec -> 'on' ->> 'stream' AS event_stream,
    schedules.spec ->> 'overlap' AS overlap, schedules.spec ->> 'catch_up' AS catch_up,
    schedules.spec, schedules.fires, schedules.skips,
    to_timestamp(schedules.next_ms / 1000.0) AS next_at,
    to_timestamp(schedules.fired_ms / 1000.0) AS fired_at,
    schedules.last_run, schedules.last_skip, schedules.last_message,
    to_timestamp(schedules.created_ms / 1000.0) AS created_at,
    schedules.reason
FROM schedules
