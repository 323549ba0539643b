"""The addresses of the boards, and links to exactly one search, trial, run, worker or trace."""

import json
from urllib.parse import quote

OVERVIEW, SEARCHES, SEARCH, TRIAL = (
    "trackside-overview",
    "trackside-searches",
    "trackside-search",
    "trackside-trial",
)
BATCHES, FLEET, LOG, ROUNDS = "trackside-batches", "trackside-fleet", "trackside-log", "trackside-rounds"
TRACES = "trackside-traces"
"""The uid of the data source with the traces, if there is one: Jaeger or Tempo."""
_TRACE = "TRACE"


def to_search(column: str = "search_id", *, spans: bool = False) -> str:
    """Returns the link of a cell to the board of the search that a column names.

    With `spans` the board opens at the time of the search: columns `from_ms` and `to_ms` have it.
    """
    return _link(SEARCH, "search", column, spans)


def to_trial(column: str = "task_id", *, spans: bool = False) -> str:
    """Returns the link of a cell to the board of the trial, or task, that a column names."""
    return _link(TRIAL, "task", column, spans)


def to_run(column: str = "run_id", *, spans: bool = False) -> str:
    """Returns the link of a cell to the board of batches and pipelines, with the run that a column names."""
    return _link(BATCHES, "run", column, spans)


def to_batch(column: str = "batch_id", *, spans: bool = False) -> str:
    """Returns the link of a cell to the board of batches, with the batch that a column names."""
    return _link(BATCHES, "batch", column, spans)


def to_worker(column: str = "worker_id") -> str:
    """Returns the link of a cell to the fleet, with the worker that a column names; the time stays."""
    return f"{_link(FLEET, 'worker', column, False)}&${{__url_time_range}}"


def to_job(column: str = "job_id") -> str:
    """Returns the link of a cell to the board of rounds, with the job that a column names."""
    return _link(ROUNDS, "job", column, False)


def to_trace(column: str = "trace_id") -> str:
    """Returns the link of a cell to the trace that a column names, in the data source `trackside-traces`.

    It is an address of Explore as Grafana 9 writes it, which later releases convert. Jaeger and Tempo both
    take the id as the whole query.
    """
    query = {"refId": "A", "datasource": {"uid": TRACES}, "queryType": "traceql", "query": _TRACE}
    pane = {"datasource": TRACES, "queries": [query], "range": {"from": "${__from}", "to": "${__to}"}}
    text = quote(json.dumps(pane, separators=(",", ":")))
    for name, value in ((_TRACE, f"${{__data.fields.{column}}}"), ("${__from}",) * 2, ("${__to}",) * 2):
        text = text.replace(quote(name), value)
    return f"/explore?left={text}"


def board(uid: str) -> str:
    """Returns the address of a board."""
    return f"/d/{uid}"


def _link(uid: str, variable: str, column: str, spans: bool) -> str:
    link = f"{board(uid)}?var-{variable}=${{__data.fields.{column}}}"
    return f"{link}&from=${{__data.fields.from_ms}}&to=${{__data.fields.to_ms}}" if spans else link


def span(began: str, ended: str) -> str:
    """Returns the SQL of `from_ms` and `to_ms` for a link: a little more than from `began` to `ended`.

    What has no end lasts until now. They are texts, so that Grafana does not shorten the numbers.
    """
    margin = f"greatest(extract(epoch FROM coalesce({ended}, now()) - {began}) * 0.02, 1)"
    return (
        f"((extract(epoch FROM {began}) - {margin}) * 1000)::bigint::text AS from_ms, "
        f"coalesce(((extract(epoch FROM {ended}) + {margin}) * 1000)::bigint::text, 'now') AS to_ms"
    )
