"""What text boxes select, as SQL: any id, of however many there are, or the newest one if they are empty."""

from boards.board import Variable

_NEWEST_SEARCH = "(SELECT search_id FROM searches ORDER BY started_at DESC LIMIT 1)"
_NEWEST_TRIAL = f"(SELECT task_id FROM trials WHERE search_id = {_NEWEST_SEARCH} ORDER BY trial DESC LIMIT 1)"
_NEWEST_RUN = "(SELECT run_id FROM runs ORDER BY started_at DESC LIMIT 1)"
_NEWEST_BATCH = "(SELECT batch_id FROM batches ORDER BY started_at DESC LIMIT 1)"
_NEWEST_JOB = "(SELECT job_id FROM incremental_jobs ORDER BY started_at DESC LIMIT 1)"


def _chosen(variable: str, newest: str) -> str:
    return f"coalesce(nullif(${{{variable}:sqlstring}}, ''), {newest})"


SEARCH, TASK = _chosen("search", _NEWEST_SEARCH), _chosen("task", _NEWEST_TRIAL)
RUN, BATCH, JOB = _chosen("run", _NEWEST_RUN), _chosen("batch", _NEWEST_BATCH), _chosen("job", _NEWEST_JOB)
SEARCH_BOX = Variable("search", "Search (empty: the newest)")
TASK_BOX = Variable("task", "Task of a trial or step (empty: the newest trial)")
RUN_BOX = Variable("run", "Run (empty: the newest)")
BATCH_BOX = Variable("batch", "Batch (empty: the newest)")
JOB_BOX = Variable("job", "Job (empty: the newest)")
