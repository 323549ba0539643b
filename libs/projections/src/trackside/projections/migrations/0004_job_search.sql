-- Searches find all series of a tag, and the parameters that jobs have reported. A tag is found by its hash: it may
-- be longer than an index allows.

CREATE INDEX metric_series_of_tags ON metric_series (hashtextextended(tag, 0), task_id, attempt);

CREATE INDEX metric_series_of_parameters ON metric_series (task_id, attempt) WHERE kind = 'hparams';
