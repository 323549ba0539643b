"""The route of the fleet that is no page: the form for one device, loaded when its button is pressed."""

from functools import partial

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from trackside.console.pages.fleet import device_form
from trackside.console.web.application import Pages, explained
from trackside.console.web.users import Role


def add_fleet(app: FastAPI, pages: Pages) -> None:
    """Adds the route to an application."""
    app.add_route("/fleet/device", partial(_form, pages), ["GET"])


async def _form(pages: Pages, request: Request) -> Response:
    """Answers with the form that takes a device out of use, or into use again."""
    if request.state.user.role < Role.OPERATOR:
        return PlainTextResponse("drain and resume need the role operator", 403)
    query = request.query_params
    name, form, problem = f"{query.get('worker', '')}/{query.get('device', '')}", None, ""
    try:
        form = await pages.read(request, device_form)
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        problem = explained(error)[0]
    values = {"name": name, "form": form, "problem": problem}
    return HTMLResponse(pages.fragment("device_form.html", values))
