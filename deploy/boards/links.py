"""The addresses of the boards, and links to exactly one search, trial, run, worker or trace."""

import json
from urllib.parse import quote

OVERVIEW, SEARCHES = "trackside-overview", "trackside-searches"
SEARCH, TRIAL = "trackside-search", "trackside-trial"
BATCHES, FLEET, LOG, ROUNDS = "trackside-batches", "trackside-fleet", "trackside-log", "trackside-rounds"
TRACES = "trackside-traces"
"""The uid of the data source with the traces, if there is one: Jaeger or Tempo."""
_TRACE = "TRACE"


_OPENED = {
    "search": (SEARCH, "search", "search_id"),
    "trial": (TRIAL, "task", "task_id"),
    "run": (BATCHES, "run", "run_id"),
    "batch": (BATCHES, "batch", "batch_id"),
    "worker": (FLEET, "worker", "worker_id"),
    "job": (ROUNDS, "job", "job_id"),
}
"""Of each kind of thing: its board, the variable there that selects it, and the column that names it."""


def to(kind: str, column: str | None = None, *, spans: bool = False) -> str:
    """Returns the link of a cell to the board of the search, trial, run, ... that a column names.

    With `spans` the board opens at the time when it ran: columns `from_ms` and `to_ms` have it. To a worker
    the time stays.
    """
    uid, variable, usual = _OPENED[kind]
    link = f"{board(uid)}?var-{variable}=${{__data.fields.{column or usual}}}"
    if kind == "worker":
        return f"{link}&${{__url_time_range}}"
    return f"{link}&from=${{__data.fields.from_ms}}&to=${{__data.fields.to_ms}}" if spans else link


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


def span(began: str, ended: str) -> str:
    """Returns the SQL of `from_ms` and `to_ms` for a link: a little more than from `began` to `ended`.

    What has no end lasts until now. They are texts, so that Grafana does not shorten the numbers.
    """
    margin = f"greatest(extract(epoch FROM coalesce({ended}, now()) - {began}) * 0.02, 1)"
    return (
        f"((extract(epoch FROM {began}) - {margin}) * 1000)::bigint::text AS from_ms, "
        f"coalesce(((extract(epoch FROM {ended}) + {margin}) * 1000)::bigint::text, 'now') AS to_ms"
    )
