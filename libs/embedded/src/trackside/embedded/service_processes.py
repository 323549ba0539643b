"""The processes of a stack besides its servers: what sets it up, and its services."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from trackside.contracts.wire.topic_rights import ADMIN
from trackside.embedded.options import ServiceSpec
from trackside.embedded.ports import HOST
from trackside.embedded.processes import ProcessSpec, without_postgres
from trackside.eventlog.keys.key_folder import SERVICES, WORKER, KeyFolder
from trackside.eventlog.settings.secure_folder import KEYS, variables_of

SETUP_TIER = 1


def setup_processes(
    folder: Path, commands: Sequence[Sequence[str]], env: Mapping[str, str], secure: Path | None
) -> list[ProcessSpec]:
    """Returns the processes that run once, one after the other, before the services."""
    return [
        ProcessSpec(
            name=f"setup-{number}",
            argv=list(command),
            log=str(folder / "logs" / f"setup-{number}.log"),
            env={**env, **_as_principal(secure, ADMIN)},
            tier=SETUP_TIER + number,
            check="exit",
        )
        for number, command in enumerate(commands)
    ]


def service_processes(
    folder: Path,
    services: Sequence[ServiceSpec],
    env: Mapping[str, str],
    ports: Mapping[str, int],
    tier: int,
    secure: Path | None,
) -> list[ProcessSpec]:
    """Returns the processes of the services, with ports, a folder and, if secure, a principal.

    Workers read nothing in Postgres, and run what others have written: they get no way into it.
    """
    processes = []
    addresses = {
        each.name: f"http://{HOST}:{ports[f'health:{each.name}']}" for each in services if not each.pages
    }
    others = ",".join(f"{name}={address}" for name, address in addresses.items())
    for service in services:
        data = folder / "services" / service.name
        data.mkdir(parents=True, exist_ok=True)
        port = ports[f"health:{service.name}"]
        own = {"TRACKSIDE_HEALTH_PORT": str(port), "TRACKSIDE_DATA_DIR": str(data), "PYTHONUNBUFFERED": "1"}
        if service.pages:
            own |= {"TRACKSIDE_CONSOLE_PORT": str(ports[service.name]), "TRACKSIDE_CONSOLE_SERVICES": others}
        spec = ProcessSpec(
            name=service.name,
            argv=service.command(),
            log=str(folder / "logs" / f"{service.name}.log"),
            env={
                **(without_postgres(env) if service.is_worker else env),
                **own,
                **_as_principal(secure, service.principal),
                **_signing(secure, service.principal),
                **service.env,
            },
            tier=tier,
            check="http",
            port=ports[service.name] if service.pages else None,
            health_port=port,
            optional=service.pages,
            data=service.env.get("TRACKSIDE_WORKER_DATA_DIR", str(data)),
            package=service.package if service.argv is None and not service.pages else None,
        )
        processes.append(spec)
    return processes


def _signing(secure: Path | None, principal: str) -> dict[str, str]:
    """Returns the variable with the key of a service that writes events, which the set-up makes."""
    if secure is None or not (principal in SERVICES or principal.startswith(WORKER)):
        return {}
    return {"TRACKSIDE_SIGNING_KEY_FILE": str(KeyFolder(secure / KEYS).file(principal))}


def _as_principal(secure: Path | None, principal: str) -> dict[str, str]:
    return {} if secure is None else variables_of(secure, principal)
