"""A board: sections of panels on a grid of 24 columns, variables, annotations, links to the other boards."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    GridPos,
    VariableRefresh,
)

from boards import links
from boards.panels import Panel
from boards.queries import POSTGRES, PROMETHEUS, PostgresQuery, Query

WIDTH = 24
SCHEMA_VERSION = 37
"""That of Grafana 9.4: later releases migrate what they read from it; a higher one would not be migrated."""
_TITLES = {
    links.OVERVIEW: "Overview",
    links.SEARCHES: "Searches",
    links.SEARCH: "Search",
    links.TRIAL: "Trial",
    links.BATCHES: "Batches and pipelines",
    links.FLEET: "Fleet",
    links.LOG: "Log and services",
    links.ROUNDS: "Rounds",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A panel with its width in columns, and its height in units of 30 pixels."""

    panel: Panel
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Section:
    """Panels under a title, from left to right; a new line begins where the width is used up."""

    title: str
    places: Sequence[Place]


@dataclass(frozen=True, slots=True)
class Variable:
    """What a viewer selects. Without a query it is a text box: its value may be any id of any number of rows.

    `all_values` permits several values or all. `labels` has the PromQL selector instead of SQL.
    """

    name: str
    label: str
    query: str = ""
    all_values: bool = False
    prometheus: bool = False


@dataclass(frozen=True, slots=True)
class Annotation:
    """Events that are drawn over all graphs: an SQL query with columns time, text and tags, or PromQL."""

    name: str
    colour: str
    query: Query
    expression: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard. `refresh` fits what its queries cost."""

    uid: str
    description: str
    sections: Sequence[Section]
    variables: Sequence[Variable] = ()
    annotations: Sequence[Annotation] = ()
    span: str = "now-24h"
    refresh: str = "30s"
    tags: Sequence[str] = field(default=("trackside",))

    @property
    def title(self) -> str:
        """Returns the title, without the name of the product."""
        return _TITLES[self.uid]

    @property
    def file_name(self) -> str:
        """Returns the name of its file in deploy/grafana/dashboards."""
        return f"{self.uid.removeprefix('trackside-')}.json"

    def to_json(self) -> dict[str, Any]:
        """Returns the board in Grafana's classic JSON model."""
        built = dashboard.Dashboard(f"Trackside: {self.title.lower()}").uid(self.uid)
        built.description(self.description).tags(list(self.tags)).timezone("browser")
        built.time(self.span, "now").refresh(self.refresh).tooltip(DashboardCursorSync.CROSSHAIR)
        for uid, title in _TITLES.items():
            if uid != self.uid:
                link = dashboard.DashboardLink(title).type(DashboardLinkType.LINK).url(links.board(uid))
                built.link(link.keep_time(True))
        for variable in self.variables:
            built.with_variable(_variable(variable))
        for annotation in self.annotations:
            built.annotation(_annotation(annotation))
        for placed in self._layout():
            built.with_panel(placed) if isinstance(placed, dashboard.Panel) else built.with_row(placed)
        document: dict[str, Any] = json.loads(json.dumps(built.build(), cls=JSONEncoder))
        return _numbered(document)

    def text(self) -> str:
        """Returns the text of its file."""
        return json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n"

    def _layout(self) -> list[Panel | dashboard.Row]:
        """Returns rows and panels with their positions on the grid."""
        placed: list[Panel | dashboard.Row] = []
        y = 0
        for section in self.sections:
            placed.append(dashboard.Row(section.title).grid_pos(GridPos(x=0, y=y, w=WIDTH, h=1)))
            y += 1
            x = height = 0
            for place in section.places:
                if x + place.width > WIDTH:
                    x, y, height = 0, y + height, 0
                placed.append(place.panel.grid_pos(GridPos(x=x, y=y, w=place.width, h=place.height)))
                x, height = x + place.width, max(height, place.height)
            y += height
        return placed


def _numbered(document: dict[str, Any]) -> dict[str, Any]:
    for number, panel in enumerate(document["panels"], start=1):
        panel["id"] = number
    for name in ("templating", "annotations"):
        document[name].setdefault("list", [])
    return {**document, "schemaVersion": SCHEMA_VERSION, "version": 1}


def _variable(variable: Variable) -> dashboard.TextBoxVariable | dashboard.QueryVariable:
    if not variable.query:
        return dashboard.TextBoxVariable(variable.name).label(variable.label).default_value("")
    source = PROMETHEUS if variable.prometheus else POSTGRES
    named: dict[str, object] = {"query": variable.query, "refId": variable.name}
    query = named if variable.prometheus else variable.query
    built = dashboard.QueryVariable(variable.name).label(variable.label).datasource(source).query(query)
    built.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    return built.multi(True).include_all(True) if variable.all_values else built


def _annotation(annotation: Annotation) -> dashboard.AnnotationQuery:
    built = dashboard.AnnotationQuery().name(annotation.name).enable(True).icon_color(annotation.colour)
    if isinstance(annotation.query, PostgresQuery):
        return built.datasource(POSTGRES).target(annotation.query.ref_id("Anno"))
    built.datasource(PROMETHEUS).expr(annotation.expression).step("15s")
    return built.title_format(annotation.name).text_format("{{job}} {{instance}}").tag_keys("instance")
