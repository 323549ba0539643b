"""Draws boards as HTML, and as PNG with chromium: `PYTHONPATH=deploy python -m boards.preview --help`."""

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from boards.answers import Answer, Target, as_reader, ask_postgres, ask_prometheus, targets
from boards.catalogue import boards
from boards.expansion import View
from boards.preview.panels import annotation_marks, draw
from trackside.eventlog.clock import now_ms

WIDTH_PX, CELL_PX, GAP_PX, TITLE_PX = 1600, 38, 8, 26
STYLE = """
body { margin: 0; background: #f4f5f5; font: 12px sans-serif; color: #24292e; position: relative; }
section { position: absolute; background: white; border: 1px solid #ddd; overflow: hidden;
  box-sizing: border-box; }
h2 { font-size: 13px; margin: 4px 8px; height: 18px; font-weight: 600; white-space: nowrap; }
h1 { position: absolute; font-size: 14px; margin: 8px; }
svg text { font: 11px sans-serif; fill: #555; }
table { font: 14px sans-serif; border-collapse: collapse; table-layout: fixed; }
td, th { box-sizing: border-box; text-align: left; padding: 2px 6px; height: 19px;
  border-bottom: 1px solid #eee; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
.legend { font-size: 11px; line-height: 15px; } .legend span { margin-right: 10px; white-space: nowrap; }
.legend i { display: inline-block; width: 10px; height: 3px; margin: 3px; }
.numbers { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-around;
  text-align: center; }
.none { text-align: center; color: #888; margin-top: 30px; } .axis { font-size: 11px; text-align: center; }
ul { font-size: 13px; line-height: 1.6; }
"""


async def page(board: Mapping[str, Any], view: View, dsn: str, prometheus: str) -> tuple[str, int]:
    """Returns a board as HTML, and its height in pixels."""
    answers = await _answers(list(targets(board)), view, dsn, prometheus)
    colours = {each["name"]: each["iconColor"] for each in board["annotations"]["list"]}
    marks = annotation_marks(
        [answer for answer in answers if answer.target.kind == "annotation"], colours, view
    )
    parts, bottom = [], 0
    for panel in board["panels"]:
        place = panel["gridPos"]
        left, top = place["x"] * WIDTH_PX / 24, 34 + place["y"] * CELL_PX
        if panel["type"] == "row":
            parts.append(f'<h1 style="left:{left}px;top:{top}px">{escape(panel["title"])}</h1>')
            continue
        width, height = place["w"] * WIDTH_PX / 24 - GAP_PX, place["h"] * CELL_PX - GAP_PX
        own = [answer for answer in answers if answer.target.panel is panel]
        body = draw(panel, own, (width - 12, height - TITLE_PX - 8), view, marks)
        style = f"left:{left:.0f}px;top:{top}px;width:{width:.0f}px;height:{height}px"
        parts.append(f'<section style="{style}"><h2>{escape(panel["title"])}</h2>{body}</section>')
        bottom = max(bottom, top + height)
    head = f"<h1>{escape(board['title'])}</h1>"
    return f'<meta charset="utf-8"><style>{STYLE}</style>{head}{"".join(parts)}', bottom + 10


async def _answers(asked: Sequence[Target], view: View, dsn: str, prometheus: str) -> list[Answer]:
    connection = await as_reader(dsn)
    found = []
    try:
        for target in asked:
            if target.is_sql:
                found.append(await ask_postgres(connection, target, view))
            else:
                found.append(ask_prometheus(prometheus, target, view))
    finally:
        await connection.close()
    return found


def picture(html: Path, png: Path, height: int) -> None:
    """Writes the picture of a page with chromium. Raises FileNotFoundError without it on the PATH."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        raise FileNotFoundError("chromium is not on the PATH; without --png the pages are written as HTML")
    with tempfile.TemporaryDirectory() as profile:
        flags = (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
        )
        size = (f"--window-size={WIDTH_PX},{height}", f"--screenshot={png}")
        subprocess.run(
            [found, *flags, *size, html.absolute().as_uri()], check=True, capture_output=True, timeout=120
        )


async def _chosen(board: Mapping[str, Any], dsn: str, view: View, given: Mapping[str, str]) -> View:
    """Returns the view with what is selected on a board: what is given, else what Grafana selects first."""
    chosen: dict[str, Any] = {}
    asked = {target.title.removeprefix("variable "): target for target in targets(board)}
    connection = await as_reader(dsn)
    try:
        for variable in board["templating"]["list"]:
            name = variable["name"]
            if name in given or variable["type"] == "textbox":
                chosen[name] = given.get(name, "")
            elif name in asked:
                known = replace(view, variables=chosen)
                values = [str(row[0]) for row in (await ask_postgres(connection, asked[name], known)).rows]
                chosen[name] = values if variable.get("includeAll") else next(iter(values), "")
            else:
                chosen[name] = ".*"
    finally:
        await connection.close()
    return replace(view, variables=chosen)


def main() -> int:
    """Draws the boards that are asked for."""
    parser = argparse.ArgumentParser(prog="boards.preview", description=__doc__)
    parser.add_argument("--postgres", required=True, metavar="DSN", help="database of the read models")
    parser.add_argument("--prometheus", required=True, metavar="URL", help="such as http://127.0.0.1:9090")
    parser.add_argument("--seconds", type=float, default=3600, help="length of the range (3600)")
    parser.add_argument("--to", type=float, metavar="UNIX", help="end of the range, seconds since 1970 (now)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a variable of the boards"
    )
    parser.add_argument(
        "--only", action="append", metavar="UID", help="draw only this board; may be repeated"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="where the files are written"
    )
    parser.add_argument("--png", action="store_true", help="write pictures too, with chromium")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    ended = options.to or now_ms() / 1000
    given = dict(each.split("=", 1) for each in options.set)
    span = View(ended - options.seconds, ended)
    for board in boards():
        if options.only and board.uid not in options.only:
            continue
        document = board.to_json()
        view = asyncio.run(_chosen(document, options.postgres, span, given))
        text, height = asyncio.run(page(document, view, options.postgres, options.prometheus))
        html = options.out / board.file_name.replace(".json", ".html")
        html.write_text(text, "utf-8")
        if options.png:
            picture(html, html.with_suffix(".png"), height)
        sys.stdout.write(f"{html}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
