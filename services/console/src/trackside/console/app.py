"""The console's wiring: settings, log, Postgres, pages, pushed changes, commands."""

from contextlib import closing
from functools import partial

import structlog
from fastapi import FastAPI
from starlette.middleware.sessions import SessionMiddleware

from trackside.artifacts.settings import StoreSettings
from trackside.console.commands.publishing import FormCommands
from trackside.console.live.alerts import watch_alerts
from trackside.console.live.hub import Hub
from trackside.console.live.log_state import watch_log
from trackside.console.live.pushing import Pushing
from trackside.console.live.services import ask_services
from trackside.console.pages.catalogue import SITE
from trackside.console.pages.fleet_routes import add_fleet
from trackside.console.pages.history.whatif_routes import add_whatif
from trackside.console.pages.searches.artifact_routes import add_artifacts
from trackside.console.pages.searches.exports import Exports, add_exports
from trackside.console.pages.searches.output_routes import add_output
from trackside.console.pages.summaries.routes import add_summaries
from trackside.console.settings import ConsoleSettings
from trackside.console.web.access import Access
from trackside.console.web.application import Pages, make_application
from trackside.console.web.logins import add_logins
from trackside.console.web.oidc import LOGIN_LIMIT_S
from trackside.console.web.server import serving
from trackside.console.web.store import opened_store
from trackside.console.web.users import Sessions, Tokens, session_key
from trackside.console.whatif.jobs import WhatIfJobs
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.reactor.serving import run_service
from trackside.eventlog.settings.settings import StackSettings, read_settings
from trackside.projections.database.log_identity import check_rows
from trackside.projections.database.notifications import follow_changes
from trackside.projections.past.open_store import open_past_store
from trackside.projections.reading.read_pool import ReadModelsPool
from trackside.projections.writing.stream_keys import PostgresStreamKeys
from trackside.sdk.async_client import AsyncClient

logger = structlog.get_logger("trackside.console")


def main() -> None:
    """Runs the console until it is stopped."""
    settings = read_settings(ConsoleSettings)
    stack = read_settings(StackSettings)
    keys = PostgresStreamKeys(stack.postgres_dsn)
    run_service("console", stack, partial(run_console, settings), keys=keys)


async def run_console(settings: ConsoleSettings, service: ServiceContext) -> None:
    """Serves the pages until the service stops."""
    key = session_key(settings.session_key_file)
    tokens = None if settings.tokens_file is None else Tokens(settings.tokens_file)
    access = Access(
        settings, tokens, Sessions(key, settings.session_hours), has_oidc=bool(settings.oidc_issuer)
    )
    with closing(ReadModelsPool(service.settings.postgres_dsn, size=settings.connections)) as pool:
        keys = PostgresStreamKeys(service.settings.postgres_dsn)
        async with AsyncClient(service.settings, service.topics.prefix, name="console", keys=keys) as client:
            await _serve(settings, service, access, key, pool, client)
    if service.background.failure is not None:
        raise service.background.failure


async def _serve(
    settings: ConsoleSettings,
    service: ServiceContext,
    access: Access,
    key: str,
    pool: ReadModelsPool,
    client: AsyncClient,
) -> None:
    hub = Hub(settings.viewers)
    whatif_jobs = WhatIfJobs(service.settings.kafka_bootstrap, service.topics.prefix)
    store = opened_store(read_settings(StoreSettings))
    service.background.alarm = service.stop.set
    pages = Pages(SITE, pool, service.log, service.topics, access, hub.states, hub.alerts)
    pages.past = open_past_store(service.settings.past_folder, service.settings.postgres_dsn)
    exports = Exports(pages, service.settings.postgres_dsn)
    pushing, forms = Pushing(pages, hub, service.stop), FormCommands(client)

    def others(app: FastAPI) -> None:
        app.add_route("/live", pushing.answer, ["GET"])
        app.add_route("/commands/{stream_id}", forms.answer, ["POST"])
        add_exports(app, exports)
        add_output(app, pages)
        add_fleet(app, pages)
        add_whatif(app, pages, whatif_jobs)
        add_artifacts(app, pages, store)
        add_summaries(app, pages, store.store)
        add_logins(app, pages, access, settings)
        if settings.oidc_issuer:  # only the way to the issuer and back needs it
            app.add_middleware(
                SessionMiddleware,
                secret_key=key,
                session_cookie="trackside_oidc",
                max_age=LOGIN_LIMIT_S,
                https_only=access.is_https,
            )

    application = make_application(pages, SITE, access, others)
    service.background.spawn(hub.run(follow_changes(service.settings.postgres_dsn)))
    service.background.spawn(check_rows(service))
    service.background.spawn(watch_log(service, pool, hub))
    service.background.spawn(ask_services(hub, settings.addresses_of_services))
    if settings.prometheus_url:
        service.background.spawn(watch_alerts(hub, settings.prometheus_url))
    async with serving(application, settings.host, settings.port) as port:
        address = settings.url or f"http://{settings.host}:{port}"
        logger.info("the console is ready", address=address)
        service.health.ready = True
        await service.stop.wait()
        hub.publish(frozenset())  # open pages see the stop
    exports.close()
    await whatif_jobs.close()
    await service.background.close()
