SELECT series FROM metric_series WHERE task_id = ANY($1)
