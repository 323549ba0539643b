"""Refusals as JSON with a status: `{"error": {"code", "path", "message", "hint"}}`."""

import json
from http import HTTPStatus
from typing import Any

from aiohttp import web

from trackside.artifacts.errors import ArtifactError
from trackside.contracts.envelope.refusals import JOB_SEARCH_CODES
from trackside.domain.display.times import Time
from trackside.projections.database.postgres import (
    PostgresGoneError,
    SchemaMissingError,
    StatementTimeoutError,
)
from trackside.projections.summaries.errors import SummaryReadRefused

_STATUS = dict.fromkeys(JOB_SEARCH_CODES, HTTPStatus.BAD_REQUEST) | {
    "bad_query": HTTPStatus.BAD_REQUEST,
    "bad_method": HTTPStatus.METHOD_NOT_ALLOWED,
    "unknown_job": HTTPStatus.NOT_FOUND,
    "unknown_tag": HTTPStatus.NOT_FOUND,
    "unknown_step": HTTPStatus.NOT_FOUND,
    "unknown_page": HTTPStatus.NOT_FOUND,
    "artifact_missing": HTTPStatus.NOT_FOUND,
    "too_many_values": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "query_timeout": HTTPStatus.SERVICE_UNAVAILABLE,
    "search_too_slow": HTTPStatus.SERVICE_UNAVAILABLE,
    "still_loading": HTTPStatus.SERVICE_UNAVAILABLE,
    "store_unreachable": HTTPStatus.SERVICE_UNAVAILABLE,
    "store_missing": HTTPStatus.SERVICE_UNAVAILABLE,
}


def as_refusal(error: Exception) -> SummaryReadRefused | None:
    """Returns why a read ended with an error, or None for an error of ours."""
    match error:
        case SummaryReadRefused():
            return error
        case ArtifactError():
            return SummaryReadRefused(error.code, "step", str(error))
        case StatementTimeoutError() | TimeoutError():
            hint = "ask for fewer jobs, tags or steps"
            return SummaryReadRefused("query_timeout", "", "the query took too long and was cancelled", hint)
        case PostgresGoneError() | SchemaMissingError():
            return SummaryReadRefused(
                "still_loading", "", f"the index can't be read now: {error}", "try again"
            )
        case web.HTTPNotFound():
            hint = "docs/reference/summaries.md lists the pages"
            return SummaryReadRefused("unknown_page", "", "there is no such page", hint)
        case web.HTTPMethodNotAllowed():
            return SummaryReadRefused(
                "bad_method", "", f"{error.method[:16]} is not supported", "expected GET"
            )
        case _:
            return None


def problem(refusal: SummaryReadRefused) -> web.Response:
    """Returns the answer for a refusal."""
    fields = {"code": refusal.code, "path": refusal.path, "message": refusal.message, "hint": refusal.hint}
    status = _STATUS.get(refusal.code, HTTPStatus.INTERNAL_SERVER_ERROR)
    answer = json_answer({"error": fields}, status)
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers["Allow"] = "GET, HEAD"
    return answer


def json_answer(body: Any, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Returns an answer of JSON that no browser keeps or takes for something else."""
    try:
        text = _written(body, False)
    except ValueError:  # what a file or a task has written itself may have numbers that JSON doesn't
        text = _written(json.loads(_written(body, True), parse_constant=_NON_FINITE.__getitem__), False)
    content = text.encode("utf-8", "surrogatepass")
    return web.Response(body=content, status=status, content_type="application/json", headers=HEADERS)


def _written(body: Any, allow_nan: bool) -> str:
    return json.dumps(body, ensure_ascii=False, allow_nan=allow_nan, separators=(",", ":"), default=_time)


def _time(value: object) -> str:
    """Returns a time in RFC 3339."""
    if isinstance(value, Time):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")


HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_NON_FINITE = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
