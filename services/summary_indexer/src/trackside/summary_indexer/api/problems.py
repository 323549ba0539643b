"""Refusals as JSON with a status: `{"error": {"code", "path", "message", "hint"}}`."""

import json
from http import HTTPStatus
from typing import Any

from aiohttp import web

from trackside.artifacts.errors import ArtifactError
from trackside.projections.postgres import PostgresGoneError, SchemaMissingError, StatementTimeoutError
from trackside.projections.summaries.errors import SummaryReadRefused

_STATUS = {
    "bad_query": HTTPStatus.BAD_REQUEST,
    "unknown_job": HTTPStatus.NOT_FOUND,
    "unknown_tag": HTTPStatus.NOT_FOUND,
    "unknown_step": HTTPStatus.NOT_FOUND,
    "unknown_page": HTTPStatus.NOT_FOUND,
    "artifact_missing": HTTPStatus.NOT_FOUND,
    "too_many_values": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "query_timeout": HTTPStatus.SERVICE_UNAVAILABLE,
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
                "bad_query", "", f"{error.method[:16]} is not supported", "expected GET"
            )
        case _:
            return None


def problem(refusal: SummaryReadRefused) -> web.Response:
    """Returns the answer for a refusal."""
    fields = {"code": refusal.code, "path": refusal.path, "message": refusal.message, "hint": refusal.hint}
    status = _STATUS.get(refusal.code, HTTPStatus.INTERNAL_SERVER_ERROR)
    return json_answer({"error": fields}, status)


def json_answer(body: Any, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Returns an answer of JSON that no browser keeps or takes for something else."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    content = text.encode("utf-8", "surrogatepass")
    return web.Response(body=content, status=status, content_type="application/json", headers=HEADERS)


HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
