SELECT trials.search_id, trials.trial, trials.task_id, reported.step, reported.value
FROM trials
CROSS JOIN LATERAL unnest(trials.report_steps, trials.report_values) AS reported (step, value)
