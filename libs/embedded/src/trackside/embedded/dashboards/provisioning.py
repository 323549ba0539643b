"""The folder from which Prometheus and Grafana read all that they know of a stack: `.trackside/dashboards`.

It is the same whether the stack starts them, or a container or another installation uses it. The files in
deploy/, which compose and Kubernetes use, are its templates.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

from trackside.embedded.files import write_whole
from trackside.embedded.ports import HOST

PROMETHEUS, POSTGRES = "trackside-prometheus", "trackside-postgres"
"""The uids of the data sources, which the dashboards name."""
HOME_BOARD = "trackside-overview"
"""The uid of the dashboard that Grafana opens with."""
EMPTY = ("plugins", "alerting", "notifiers", "access-control")
"""Folders of provisioning that Grafana complains about where they are missing."""
APPS = "grafana-lokiexplore-app,grafana-pyroscope-app,grafana-exploretraces-app,grafana-metricsdrilldown-app"
"""Grafana 11.3 and later downloads these apps at its start unless they are disabled."""


@dataclass(frozen=True)
class DashboardAddresses:
    """What is scraped, as name to port, and where Prometheus, Grafana and the read models are."""

    services: Mapping[str, int]
    prometheus_port: int
    grafana_port: int
    reader_dsn: str

    @property
    def prometheus_url(self) -> str:
        """The address of Prometheus."""
        return f"http://{HOST}:{self.prometheus_port}"

    @property
    def grafana_url(self) -> str:
        """The address of Grafana."""
        return f"http://{HOST}:{self.grafana_port}"


def write(folder: Path, addresses: DashboardAddresses) -> None:
    """Writes the folder; its files are their owner's alone, for one has the reader's password.

    Files that earlier releases wrote are removed one by one: a container may have the folder mounted.
    """
    grafana, provisioning = shipped("grafana"), folder / "provisioning"
    for each in (
        "boards",
        "rules",
        *(f"provisioning/{name}" for name in ("datasources", "dashboards", *EMPTY)),
    ):
        (folder / each).mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    _copy(grafana / "dashboards", folder / "boards", "*.json")
    _copy(shipped("prometheus") / "rules", folder / "rules", "*.yml")
    sources = yaml.safe_load((grafana / "provisioning/datasources/trackside.yaml").read_text("utf-8"))
    boards = yaml.safe_load((grafana / "provisioning/dashboards/trackside.yaml").read_text("utf-8"))
    scrapes = yaml.safe_load((shipped("prometheus") / "prometheus.yml").read_text("utf-8"))
    boards["providers"][0]["options"]["path"] = escaped(str(folder / "boards"))
    _write_yaml(provisioning / "datasources/trackside.yaml", data_sources(sources, addresses))
    _write_yaml(provisioning / "dashboards/trackside.yaml", boards)
    _write_yaml(folder / "prometheus.yml", scrape_config(scrapes, folder))
    write_whole(folder / "targets.json", json.dumps(targets(addresses.services), indent=1))
    password = folder / "admin-password"
    if not password.exists():
        write_whole(password, secrets.token_hex(16) + "\n")
    lines = [f"{name}={value}\n" for name, value in grafana_variables(folder, addresses).items()]
    write_whole(folder / "grafana.env", "".join(lines))


def shipped(name: str) -> Path:
    """Returns a folder of deploy/; the wheel and the clone hold the same files in different places."""
    package = Path(__file__).resolve().parent
    installed = package / name
    return installed if installed.is_dir() else package.parents[5] / "deploy" / name


def escaped(value: str) -> str:
    """Returns a value as a provisioning file of Grafana has it, where a dollar begins a variable."""
    return value.replace("$", "$$")


def data_sources(template: dict[str, Any], addresses: DashboardAddresses) -> dict[str, Any]:
    """Returns the data sources of deploy/ with the addresses of a stack, and the reader's password."""
    reader = urlsplit(addresses.reader_dsn)
    by_uid = {each["uid"]: each for each in template["datasources"]}
    database = escaped(unquote(reader.path.lstrip("/")))
    options = {"database": database, "sslmode": parse_qs(reader.query).get("sslmode", ["disable"])[0]}
    postgres = by_uid[POSTGRES] | {
        "url": f"{reader.hostname}:{reader.port or 5432}",
        "user": escaped(unquote(reader.username or "")),
        "database": database,
        "secureJsonData": {"password": escaped(unquote(reader.password or ""))},
    }
    postgres["jsonData"] = postgres["jsonData"] | options
    prometheus = by_uid[PROMETHEUS] | {"url": addresses.prometheus_url}
    return {**template, "datasources": [prometheus, postgres]}


def scrape_config(template: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Returns the configuration of deploy/ with the rules and the targets of a stack."""
    (job,) = [each for each in template["scrape_configs"] if each["job_name"] == "trackside"]
    kept = {name: value for name, value in job.items() if not name.endswith(("_configs",))}
    own = kept | {"file_sd_configs": [{"files": [str(folder / "targets.json")]}]}
    return {
        "global": template["global"],
        "rule_files": [str(folder / "rules" / "*.yml")],
        "scrape_configs": [own],
    }


def targets(services: Mapping[str, int]) -> list[dict[str, Any]]:
    """Returns the targets of Prometheus: each process by its name, with the service that it is one of."""
    return [
        {"targets": [f"{HOST}:{port}"], "labels": {"instance": name, "service": service_of(name)}}
        for name, port in services.items()
    ]


def service_of(name: str) -> str:
    """Returns the service of a process: that of `worker-2` is `worker`."""
    return name.rstrip("0123456789").rstrip("-")


def grafana_variables(folder: Path, addresses: DashboardAddresses) -> dict[str, str]:
    """Returns the settings of Grafana, as environment variables: for this machine, read only, no calls home.

    A container has data and logs of its own, so these folders are not among them.
    """
    home = _board(folder / "boards", HOME_BOARD)
    return {
        "GF_PATHS_PROVISIONING": str(folder / "provisioning"),
        "GF_SERVER_HTTP_ADDR": HOST,
        "GF_SERVER_HTTP_PORT": str(addresses.grafana_port),
        "GF_AUTH_ANONYMOUS_ENABLED": "true",
        "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
        "GF_SECURITY_ADMIN_PASSWORD": f"$__file{{{folder / 'admin-password'}}}",
        "GF_SECURITY_DISABLE_GRAVATAR": "true",
        "GF_USERS_DEFAULT_THEME": "system",
        "GF_USERS_ALLOW_SIGN_UP": "false",
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
        "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
        "GF_ANALYTICS_FEEDBACK_LINKS_ENABLED": "false",
        "GF_NEWS_NEWS_FEED_ENABLED": "false",
        "GF_SNAPSHOTS_EXTERNAL_ENABLED": "false",
        "GF_PLUGINS_PLUGIN_ADMIN_ENABLED": "false",
        "GF_PLUGINS_PUBLIC_KEY_RETRIEVAL_DISABLED": "true",
        "GF_PLUGINS_DISABLE_PLUGINS": APPS,
        "GF_UNIFIED_ALERTING_ENABLED": "false",
        "GF_ALERTING_ENABLED": "false",
        **({} if home is None else {"GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH": str(home)}),
    }


def _board(folder: Path, uid: str) -> Path | None:
    """Returns the file of a dashboard."""
    boards = sorted(folder.glob("*.json"))
    return next((path for path in boards if json.loads(path.read_text("utf-8")).get("uid") == uid), None)


def _copy(source: Path, target: Path, pattern: str) -> None:
    files = {each.name: each for each in source.glob(pattern)}
    for old in target.glob(pattern):
        if old.name not in files:
            old.unlink()
    for name, file in files.items():
        write_whole(target / name, file.read_text("utf-8"))


def _write_yaml(path: Path, content: object) -> None:
    write_whole(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1_000))
