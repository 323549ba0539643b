import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.house import words
from tests.house.source import ROOT
from tests.house.words import Text
from tests.unit.alerts.rules import FOLDER, Rule, alerts, problems, rules
from tests.unit.docs.test_links import anchors

RUNBOOKS = ROOT / "docs" / "operations.md"
CASES = sorted(Path(__file__).parent.glob("*.test.yml"))
BOARDS = ROOT / "deploy" / "grafana" / "dashboards"
PANEL = re.compile(r"\*([^*]+)\* \(\[([^\]]+)\]\(#boards\)\)")
OUTPUT = re.compile(r"^```\n\$ .+\n(?:.+\n)+```$", re.MULTILINE)
SEVERITIES = ("page", "warning", "info")
DURATION = re.compile(r"\b\d+(?:ms|s|m|h|d|w|y)\b")
PROMTOOL = shutil.which("promtool")
WITHOUT = "promtool is not on PATH: it is part of Prometheus (Debian: apt install prometheus)"
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason=WITHOUT)


def runbook_texts() -> dict[str, str]:
    _, *found = re.split(r"^### (Trackside\w+)$|^## ", RUNBOOKS.read_text("utf-8"), flags=re.MULTILINE)
    return {name: text for name, text in zip(found[::2], found[1::2], strict=True) if name}


def panels() -> set[tuple[str, str]]:
    """Returns the titles of the panels of all boards, each with that of its board."""
    boards = [json.loads(path.read_text("utf-8")) for path in sorted(BOARDS.glob("*.json"))]
    return {
        (panel["title"], board["title"].removeprefix("Trackside: ").capitalize())
        for board in boards
        for panel in board["panels"]
        if panel["type"] != "row"
    }


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    found = re.findall(r"^### (Trackside\w+)$", RUNBOOKS.read_text("utf-8"), re.MULTILINE)
    assert sorted(found) == sorted(alert.name for alert in alerts())
    for alert in alerts():
        page, _, anchor = alert.annotations["runbook_url"].partition("#")
        assert ROOT / page == RUNBOOKS
        assert anchor == alert.name.lower()
        assert anchor in anchors(RUNBOOKS)


def test_every_runbook_names_a_panel_shows_the_output_of_a_command_and_says_what_to_do() -> None:
    texts, known = runbook_texts(), panels()
    assert texts.keys() == {alert.name for alert in alerts()}
    for name, text in texts.items():
        named = PANEL.findall(" ".join(text.split()))
        assert named, f"{name} names no panel"
        assert set(named) <= known, name
        assert OUTPUT.search(text), f"{name} shows no output"
        assert "\n- Do: " in text, name


def test_every_alert_says_how_urgent_it_is_and_what_happens_in_words_that_people_understand() -> None:
    assert len(alerts()) > 20
    texts = []
    for alert in alerts():
        assert alert.labels["severity"] in SEVERITIES, alert.name
        assert alert.annotations.keys() == {"summary", "description", "runbook_url"}, alert.name
        assert "{{" in alert.annotations["description"], f"{alert.name} shows no value"
        texts += [Text(f"{alert.name}: {name}", text) for name, text in alert.annotations.items()]
    assert words.violations(iter(texts)) == []
    written = " ".join(path.read_text("utf-8") for path in FOLDER.glob("*.yml"))
    assert {duration[-1] for duration in DURATION.findall(written)} <= {"m", "h"}, "not whole minutes"


def test_rules_name_only_what_exists() -> None:
    assert [problem for rule in rules() for problem in problems(rule)] == []


@pytest.mark.parametrize(
    ("expr", "problem"),
    [
        ("trackside_health_ready == 0", "no metric trackside_health_ready"),
        ("increase(trackside_scheduler_lost_workers[5m]) > 0", "no metric trackside_scheduler_lost_workers"),
        ('trackside_scheduler_queue_tasks{reason="unplaceable"} > 0', "no reason 'unplaceable', only"),
        ('rate(trackside_eventlog_hop_seconds_bucket{le="0.3"}[5m]) > 0', "no le '0.3', only"),
        ('trackside_scheduler_queue_tasks{queue="gpu"} > 0', "has no label queue"),
        ('absent(trackside_build_info{service="dispatch"})', "no service 'dispatch', only"),
        ("sum by (worker) (trackside_worker_running_tasks) > 0", "no metric of it has a label worker"),
        ("namespace:trackside_worker:late5m > 1", "namespace:trackside_worker:late5m is not recorded"),
        ("trackside_worker_running_tasks > 0", "shows the label device"),
    ],
)
def test_what_does_not_exist_is_found(expr: str, problem: str) -> None:
    text = "On {{ $labels.device }}." if "shows" in problem else ""
    (found,) = problems(Rule("Planted", "", expr, "5m", {}, {"description": text}))
    assert problem in found


def test_every_alert_is_tested_to_fire_and_not_to_fire() -> None:
    fires: set[str] = set()
    silent: set[str] = set()
    for path in CASES:
        for case in yaml.safe_load(path.read_text("utf-8"))["tests"]:
            for step in case["alert_rule_test"]:
                (fires if step["exp_alerts"] else silent).add(step["alertname"])
    assert fires == silent == {alert.name for alert in alerts()}


@needs_promtool
def test_the_rules_are_valid_and_alerts_fire_when_they_should_and_not_before() -> None:
    assert PROMTOOL is not None
    assert len(CASES) > 3
    files = map(str, sorted(FOLDER.glob("*.yml")))
    for arguments in (("check", "rules", "--lint-fatal", *files), ("test", "rules", *map(str, CASES))):
        ended = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
