"""A stand-in for Grafana, which is not Grafana: it checks what a server of Grafana would be given.

No package of Grafana can be had where the tests run. This program takes the command lines of both layouts. It
reads the environment and the provisioning files by Grafana's rules: `$VARIABLE`, `${VARIABLE}`,
`$__file{path}`, `$$`. It serves /api/health, and at /report what it found: with the login of the data source
it runs queries of the dashboards, and it asks Prometheus.
"""

import argparse
import asyncio
import json
import os
import re
import sys
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import asyncpg
import yaml

VARIABLE = re.compile(r"\$__file\{([^}]+)\}|\$\{(\w+)\}|\$(\w+)")
TIME_FILTER = re.compile(r"\$__timeFilter\([^)]*\)")


def expanded(value: Any) -> Any:
    """Returns a value of a provisioning file as Grafana takes it."""
    if isinstance(value, dict):
        return {name: expanded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [expanded(each) for each in value]
    if not isinstance(value, str):
        return value
    return "$".join(VARIABLE.sub(_replacement, part) for part in value.split("$$"))


def _replacement(found: "re.Match[str]") -> str:
    if found[1]:
        return Path(found[1]).read_text().strip()
    return os.environ.get(found[2] or found[3], "")


def provisioned(kind: str) -> dict[str, Any]:
    """Returns what the one file of a kind of provisioning has."""
    (file,) = (Path(os.environ["GF_PATHS_PROVISIONING"]) / kind).glob("*.yaml")
    found: dict[str, Any] = expanded(yaml.safe_load(file.read_text()))
    assert found["apiVersion"] == 1
    return found


def boards() -> list[dict[str, Any]]:
    """Returns the dashboards of the provisioned folder."""
    (provider,) = provisioned("dashboards")["providers"]
    return [json.loads(path.read_text()) for path in sorted(Path(provider["options"]["path"]).glob("*.json"))]


def plain_queries() -> list[str]:
    """Returns the queries of panels that have no variable, with a range of time that is always true."""
    panels = [panel for board in boards() for panel in board["panels"]]
    targets = [target for panel in panels for target in panel.get("targets", ())]
    written = [TIME_FILTER.sub("true", target["rawSql"]) for target in targets if "rawSql" in target]
    return [query for query in written if "$" not in query]


async def ask_postgres(source: dict[str, Any]) -> dict[str, Any]:
    """Logs in as a data source says, and runs the queries."""
    host, _, port = source["url"].partition(":")
    connection = await asyncpg.connect(
        host=host,
        port=int(port),
        user=source["user"],
        password=source["secureJsonData"]["password"],
        database=source["jsonData"]["database"],
        ssl=source["jsonData"]["sslmode"] != "disable",
    )
    try:
        user = await connection.fetchval("SELECT current_user")
        rows = [len(await connection.fetch(query)) for query in plain_queries()]
    finally:
        await connection.close()
    return {"user": user, "queries": len(rows)}


def ask_prometheus(source: dict[str, Any]) -> list[dict[str, str]]:
    """Returns the labels of the targets that Prometheus has scraped."""
    query = urllib.parse.urlencode({"query": "up == 1"})
    with urllib.request.urlopen(f"{source['url']}/api/v1/query?{query}", timeout=10) as answer:
        return [each["metric"] for each in json.load(answer)["data"]["result"]]


def report() -> dict[str, Any]:
    """Returns all that was found."""
    sources = {each["uid"]: each for each in provisioned("datasources")["datasources"]}
    return {
        "argv": sys.argv[1:],
        "settings": {name: value for name, value in os.environ.items() if name.startswith("GF_")},
        "types": {uid: each["type"] for uid, each in sources.items()},
        "boards": len(boards()),
        "postgres": asyncio.run(ask_postgres(sources["trackside-postgres"])),
        "targets": ask_prometheus(sources["trackside-prometheus"]),
    }


class Answers(BaseHTTPRequestHandler):
    """Answers /api/health and /report."""

    def do_GET(self) -> None:
        body = {"database": "ok"} if self.path == "/api/health" else report()
        octets = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(octets)))
        self.end_headers()
        self.wfile.write(octets)

    def log_message(self, *_: object) -> None:
        """Writes nothing."""


def main() -> None:
    """Serves until it is killed; ends with 1 without what Grafana needs."""
    parser = argparse.ArgumentParser()
    if Path(os.environ["STANDIN"]).name == "grafana":
        parser.add_argument("command", choices=["server"])
    parser.add_argument("--homepath", type=Path, required=True)
    home = parser.parse_args().homepath
    if not (home / "conf" / "defaults.ini").is_file():
        raise SystemExit(f"no conf/defaults.ini in {home}")
    Path(os.environ["GF_PATHS_DATA"], "grafana.db").touch()
    address = (os.environ["GF_SERVER_HTTP_ADDR"], int(os.environ["GF_SERVER_HTTP_PORT"]))
    ThreadingHTTPServer(address, Answers).serve_forever()


if __name__ == "__main__":
    main()
