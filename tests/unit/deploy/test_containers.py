import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from trackside.console.settings import ConsoleSettings
from trackside.eventlog.settings.variables import SETTINGS

ROOT = Path(__file__).parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text("utf-8")
ONCE = {"setup", "cli"}
"""The services that do one thing and end."""
WORKERS = sorted(name for name, service in SERVICES.items() if service.get("command") == ["worker"])
PINNED = re.compile(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}")


def steps() -> list[tuple[str, str]]:
    lines = [line for line in DOCKERFILE.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.split()[0], line.split(None, 1)[1]) for line in joined.splitlines()]


def stages() -> dict[str, list[tuple[str, str]]]:
    """Returns the instructions of each stage by its name; the last one has none."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = None
    for instruction, rest in steps():
        if instruction == "FROM":
            name = rest.partition(" AS ")[2]
            found[name] = []
        elif name is not None:
            found[name].append((instruction, rest))
    return found


def test_each_variable_of_the_image_or_a_service_is_a_setting() -> None:
    assert set(re.findall(r"\bTRACKSIDE_\w+", DOCKERFILE)) <= SETTINGS
    named = {name for service in SERVICES.values() for name in service.get("environment", {})}
    assert {name for name in named if name.startswith("TRACKSIDE_")} <= SETTINGS


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_has_nothing_that_a_second_one_could_not_have(name: str) -> None:
    worker = SERVICES[name]
    assert not {"container_name", "hostname", "ports"} & set(worker)
    assert "TRACKSIDE_WORKER_ID" not in worker["environment"]
    data = Path(worker["environment"]["TRACKSIDE_WORKER_DATA_DIR"]).parent
    assert ("VOLUME", str(data)) in stages()[""], "a volume of the image is one of each container"
    assert not [each for each in worker["volumes"] if str(data) in each.split(":")]


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_has_no_way_into_postgres(name: str) -> None:
    worker = SERVICES[name]
    assert not [each for each in worker["environment"] if re.match("TRACKSIDE_(POSTGRES|READER)|PG", each)]
    assert "secrets" not in worker and "env_file" not in worker
    assert "postgres_password" in SERVICES["dispatcher"]["secrets"]


def test_there_are_workers_with_and_without_a_gpu() -> None:
    assert WORKERS == ["gpu-worker", "worker"]
    reserved = SERVICES["gpu-worker"]["deploy"]["resources"]["reservations"]["devices"]
    assert reserved == [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]
    assert "gpu" in SERVICES["gpu-worker"]["profiles"] and "profiles" not in SERVICES["worker"]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_an_image_is_built_here_or_pinned_by_tag_and_digest(name: str) -> None:
    image = re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", SERVICES[name]["image"])
    assert "build" in SERVICES[name] or PINNED.fullmatch(image)


def test_the_base_of_the_image_is_pinned_and_uv_is_the_one_of_the_lock() -> None:
    base = dict(part.split("=", 1) for kind, part in steps() if kind == "ARG")["PYTHON_IMAGE"]
    assert PINNED.fullmatch(base)
    lock = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))
    (uv,) = (each["version"] for each in lock["package"] if each["name"] == "uv")
    assert f"uv=={uv}" in DOCKERFILE


def test_dependencies_are_installed_where_no_source_file_is_and_the_image_runs_as_nobody_else() -> None:
    before = stages()["dependencies"]
    assert [rest for kind, rest in before if kind == "COPY"] == ["pyproject.toml uv.lock ./"]
    assert any("uv sync" in rest for kind, rest in before if kind == "RUN")
    assert not any("uv sync" in rest for kind, rest in stages()["wheel"] if kind == "RUN")
    assert [rest for kind, rest in stages()[""] if kind == "USER"] == ["10001:10001"]


def test_what_the_image_copies_is_there_and_sent_to_the_engine() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copies = [rest for kind, rest in steps() if kind == "COPY" and not rest.startswith("--from")]
    copied = {source for rest in copies for source in rest.split()[:-1]}
    assert copied == sent
    assert all((ROOT / each).exists() for each in copied)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_rotates_its_log_and_has_limits_and_is_started_again_if_it_stays(name: str) -> None:
    service = SERVICES[name]
    assert {"max-size", "max-file"} <= set(service["logging"]["options"])
    assert service["mem_limit"]
    assert "no-new-privileges" in service["security_opt"]
    if name not in ONCE:
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"][0] == "CMD-SHELL"
    if "build" in service:
        assert service["read_only"] is True and service["init"] is True and service["cap_drop"] == ["ALL"]
        assert "/tmp" in service["tmpfs"]


def test_only_this_machine_can_connect() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports and all(port.startswith("127.0.0.1:") for port in ports)


def test_passwords_come_from_files_that_git_and_the_image_leave_out() -> None:
    assert "deploy/compose/secrets/" in (ROOT / ".gitignore").read_text().splitlines()
    assert all("deploy/compose/secrets}/" in each["file"] for each in COMPOSE["secrets"].values())
    named = {f"/run/secrets/{each}" for each in COMPOSE["secrets"]}
    for service in SERVICES.values():
        given = {f"/run/secrets/{each}" for each in service.get("secrets", [])}
        for variable, value in service.get("environment", {}).items():
            assert not re.search(r"//[^/@]*:[^/@]*@", str(value)), f"{variable} has a password"
            if "PASSWORD" in variable:
                assert variable.endswith("_FILE")
            if variable.endswith("_FILE"):
                assert value in given <= named


def test_the_console_has_users_and_asks_the_other_services() -> None:
    prefix, console = "TRACKSIDE_CONSOLE_", SERVICES["console"]
    own = {name: value for name, value in console["environment"].items() if name.startswith(prefix)}
    given_by = re.compile(r"^\$\{\w+:-(.*)\}$")
    variables = {name.removeprefix(prefix).lower(): given_by.sub(r"\1", value) for name, value in own.items()}
    given = ConsoleSettings.model_validate(variables)
    assert given.has_login and given.session_key_file
    [published] = console["ports"]
    assert published == f"{given.url.removeprefix('http://')}:{given.port}"
    asked = {name for name, service in SERVICES.items() if service.get("command") == [name]}
    asked -= {"console", "worker"}
    assert given.addresses_of_services == {name: f"http://{name}:8080" for name in asked}


def test_what_the_services_mount_is_there() -> None:
    mounted = [volume for service in SERVICES.values() for volume in service.get("volumes", [])]
    sources = {re.sub(r"^\$\{\w+:-(.*?)\}", r"\1", each).split(":")[0] for each in mounted if ":" in each}
    assert {"./deploy/examples", "./deploy/compose/kafka_ready.sh"} <= sources
    for source in sources:
        assert source in COMPOSE["volumes"] or (ROOT / source).exists(), source
