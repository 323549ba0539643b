"""The route of the fleet that is no page: the forms of a device or worker, loaded by their buttons."""

from functools import partial

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from trackside.console.commands.forms import Form
from trackside.console.pages.fleet import device_forms
from trackside.console.web.application import Pages, explained
from trackside.console.web.users import Role


def add_fleet(app: FastAPI, pages: Pages) -> None:
    """Adds the route to an application."""
    app.add_route("/fleet/device", partial(_form, pages), ["GET"])


async def _form(pages: Pages, request: Request) -> Response:
    """Answers with the forms that take a device, or all of a worker's, out of use and into use again."""
    if request.state.user.role < Role.OPERATOR:
        return PlainTextResponse("drain and resume need the role operator", 403)
    query = request.query_params
    name, forms, problem = "/".join(filter(None, map(query.get, ("worker", "device")))), list[Form](), ""
    try:
        forms = await pages.read(request, device_forms)
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        problem = explained(error)[0]
    values = {"name": name, "forms": forms, "problem": problem}
    return HTMLResponse(pages.fragment("device_form.html", values))
