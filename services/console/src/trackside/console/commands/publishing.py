"""Publishes the command of a form and answers with what became of it.

The id of a command is made in the page, so that a form that is sent twice is idempotent.
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from trackside.console.commands import round_actions, run_actions
from trackside.console.commands.actions import DELETIONS
from trackside.console.commands.forms import DEVICES, body_of
from trackside.console.web.templates import Templates
from trackside.console.web.users import Role
from trackside.contracts.envelope.ids import is_identifier
from trackside.contracts.envelope.refusals import Problem
from trackside.sdk.async_client import AsyncClient
from trackside.sdk.connection.publication import Refused
from trackside.sdk.errors import UnansweredError, UnreachableError, UnsendableError
from trackside.telemetry import metrics

ANSWER_S = 10.0
_COMMAND_ID = re.compile(r"[A-Za-z0-9._-]{8,100}")


class FormCommands:
    """Publishes the commands of forms."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._templates = Templates()

    async def answer(self, request: Request) -> Response:
        """Publishes the command of a form to the stream in the path; answers with a part of a page."""
        stream_id = str(request.path_params["stream_id"])
        form = await request.form()
        fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        plain = dict(fields)
        kind, command_id = plain.get("type", ""), plain.get("command_id", "")
        devices = [value for name, value in fields if name == DEVICES]
        problems: Sequence[Problem]
        body, problems = body_of(fields)
        if not is_identifier(stream_id):
            problems = [Problem(code="bad_stream", message=f"{stream_id[:100]!r} is not the id of a stream")]
        elif not _COMMAND_ID.fullmatch(command_id):
            problems = [Problem(code="bad_id", message="the form has no command_id; reload the page")]
        elif kind in DELETIONS and request.state.user.role < Role.ADMIN:
            problems = [Problem(code="not_allowed", message="only an admin may delete")]
        elif not problems:
            if kind in run_actions.DECISIONS | round_actions.DECISIONS:
                body["actor"] = request.state.user.name  # the session says who it is, not the form
            bodies = {f"{command_id}.{each}": {**body, "device": each} for each in devices}
            return await self._all_published(stream_id, kind, bodies or {command_id: body}, request)
        return self._response(problems, 422)

    async def _all_published(
        self, stream_id: str, kind: str, bodies: Mapping[str, dict[str, object]], request: Request
    ) -> Response:
        """Publishes commands by their ids, one by one; answers with the first that was not accepted."""
        for command_id, body in bodies.items():
            response = await self._published(stream_id, kind, body, command_id, request)
            if response.status_code != 200:
                return response
        return response

    async def _published(
        self, stream_id: str, kind: str, body: dict[str, object], command_id: str, request: Request
    ) -> Response:
        try:
            source = f"console/{quote(request.state.user.name, safe='')}"
            command = {"type": kind, "source": source, "data": body}
            publication = await self._client.publish(command, stream_id, command_id)
            answer = await self._client.answer(publication, ANSWER_S)
        except UnsendableError as error:
            return self._response(error.problems, 422)
        except UnreachableError as error:
            _count("unanswered")
            return self._response([Problem(code="unreachable", message=str(error))], 503)
        except UnansweredError:
            _count("unanswered")
            waiting = "the command is in the log; it is answered when the dispatcher runs"
            return self._response([], 202, waiting=waiting)
        if isinstance(answer, Refused):
            _count("refused")
            return self._response(answer.all_problems, 409)
        _count("accepted")
        return self._response([], 200, accepted=True)

    def _response(
        self, problems: Sequence[Problem], status: int, *, accepted: bool = False, waiting: str = ""
    ) -> Response:
        values = {"problems": problems, "accepted": accepted, "waiting": waiting}
        return HTMLResponse(self._templates.page("answer.html", values), status)


def _count(answer: str) -> None:
    metrics.counter("trackside.console.published.commands").labels(answer).inc()
