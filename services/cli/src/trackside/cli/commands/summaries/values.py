"""The commands that show values which are no numbers: images, histograms, tensors, texts, graphs."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trackside.cli.commands.artifacts.finding import installed_store
from trackside.cli.commands.summaries.reading import only_tag, read, time_of
from trackside.cli.render import screen
from trackside.cli.render.progress import late_progress
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.contracts.envelope.memory import shown
from trackside.domain.display.text import Column, counted
from trackside.projections.database.postgres import Connection
from trackside.projections.summaries.items import (
    StoredValue,
    ValuePage,
    ValueQuery,
    known_kind,
    read_value,
    read_values,
)
from trackside.projections.summaries.points import PointRange
from trackside.projections.summaries.values import GraphQuery, read_graph, read_tensor, value_bytes
from trackside.summaries.kinds.graph_tree import GraphEntry
from trackside.summaries.kinds.kind import BadValue

SHOWN_INPUTS = 3
NAME_CHARACTERS = 80
EXTENSIONS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/bmp": "bmp",
}
"""What image files are called; one of another type is a .bin: what it holds may be a script."""


@dataclass(frozen=True, slots=True)
class ValueChoice:
    """Which values: those of one kind and tag of a job, of one step or of at most `limit`.

    Without a tag it is the only one of this kind.
    """

    job: str
    kind: str
    tag: str
    step: int | None
    limit: int | None
    superseded: bool


def images(choice: ValueChoice, folder: Path | None, as_json: bool) -> None:
    """Prints the images of a tag, or writes them to files in a folder."""
    page = _read(choice)
    if folder is not None:
        _write_images(page.values, folder, as_json)
    elif as_json:
        _emit(page)
    else:
        columns = [Column("step", right=True), Column("image", right=True), Column("size"), Column("type")]
        columns += [Column("bytes", right=True), Column("time"), Column("sha256")]
        rows = []
        for each in page.values:
            size = f"{each.body.get('width')}x{each.body.get('height')}"
            rows.append(
                [
                    each.step,
                    each.index,
                    size,
                    each.media_type,
                    shown(each.size_bytes or 0),
                    time_of(each.time_ms),
                    (each.sha256 or "")[:12],
                ]
            )
        screen.show_table(columns, rows)
        _note_thinned(page)


def values(choice: ValueChoice, as_json: bool) -> None:
    """Prints the steps of a tag and its last value, or the values of one step."""
    page = _read(choice)
    if as_json:
        _emit(page)
        return
    if choice.step is None and len(page.values) > 1:
        columns = [Column("step", right=True), Column("time"), Column("value", keep=True)]
        screen.show_table(
            columns, [[each.step, time_of(each.time_ms), _first_line(each)] for each in page.values]
        )
        _note_thinned(page)
        screen.say("")
    for each in page.values if choice.step is not None else page.values[-1:]:
        _show(each)


def text(choice: ValueChoice, as_json: bool) -> None:
    """Prints the texts of a tag, step by step."""
    page = _read(choice)
    if as_json:
        _emit(page)
        return
    for each in page.values:
        _show(each)
    _note_thinned(page)


def tensor_slice(choice: ValueChoice, dims: str) -> None:
    """Prints a part of a tensor as JSON."""
    chosen = _newest(choice)
    screen.emit(read_tensor(installed_store(), chosen, "slice", dims))


def graph(choice: ValueChoice, query: GraphQuery, as_json: bool) -> None:
    """Prints nodes of a graph."""
    page = read_graph(installed_store(), _newest(choice), query)
    if as_json:
        screen.emit({"nodes": [asdict(entry) for entry in page.entries], "total": page.total})
        return
    columns = [Column("node", keep=True), Column("operation"), Column("below", right=True), Column("inputs")]
    screen.show_table(columns, [_node(entry) for entry in page.entries])
    if len(page.entries) < page.total:
        screen.complain(f"{len(page.entries):,} of {page.total:,}; more with --limit")


def safe_name(text: str) -> str:
    """Returns the name of a file for a text, another one for each: of letters, digits, `.`, `_` and `-`."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("._")[:NAME_CHARACTERS]
    return (
        plain
        if plain == text
        else f"{plain or 'tag'}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    )


def _read(choice: ValueChoice) -> ValuePage:
    async def found(connection: Connection) -> ValuePage:
        known_kind(choice.kind)
        tag = await only_tag(connection, choice.job, choice.kind, choice.tag)
        within = PointRange() if choice.step is None else PointRange(choice.step, choice.step)
        query = ValueQuery(choice.job, choice.kind, tag, within, choice.limit, choice.superseded)
        page = await read_values(connection, query)
        if not page.values and choice.step is not None:
            await read_value(connection, query, choice.step)
        return page

    return read(found)


def _newest(choice: ValueChoice) -> StoredValue:
    """Returns the value of the chosen step, or the last one."""
    page = _read(choice)
    if not page.values:
        raise CommandFailed(f"job {choice.job} has no values of kind {choice.kind} so far")
    return page.values[-1]


def _show(value: StoredValue) -> None:
    item = f" {value.index}" if value.index else ""
    screen.say(f"step {value.step}{item}, {screen.cell(time_of(value.time_ms))}")
    for line in _lines(value, screen.console().width):
        screen.say(line)


def _lines(value: StoredValue, width: int) -> list[str]:
    try:
        return known_kind(value.kind).lines(value.body, width)
    except BadValue as error:
        return [f"unreadable: {error}"]


def _first_line(value: StoredValue) -> str:
    return next(iter(_lines(value, screen.WIDTH)), "")


def _emit(page: ValuePage) -> None:
    screen.emit({"values": [asdict(each) for each in page.values], "steps": page.steps})


def _note_thinned(page: ValuePage) -> None:
    steps = len({each.step for each in page.values})
    if steps < page.steps:
        screen.complain(f"{steps:,} of {page.steps:,} steps; more with --limit, one with --step")


def _node(entry: GraphEntry) -> list[Any]:
    inputs = [] if entry.node is None else [*entry.node.inputs, *entry.node.control_inputs]
    more = f" and {len(inputs) - SHOWN_INPUTS} more" if len(inputs) > SHOWN_INPUTS else ""
    operation = "" if entry.node is None else entry.node.op
    return [entry.path, operation, entry.nodes or None, ", ".join(inputs[:SHOWN_INPUTS]) + more]


def _write_images(values: Sequence[StoredValue], folder: Path, as_json: bool) -> None:
    """Writes images to files that don't exist yet."""
    store, written = installed_store(), list[dict[str, Any]]()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with late_progress("writing") as report:
            for number, each in enumerate(values, 1):
                extension = EXTENSIONS.get(each.media_type or "", "bin")
                path = folder / f"{safe_name(each.tag)}-{each.step}-{each.index}.{extension}"
                content = value_bytes(store, each)
                with path.open("xb") as file:
                    file.write(content or b"")
                written.append(
                    {"file": str(path), "step": each.step, "index": each.index, "sha256": each.sha256}
                )
                report(number, len(values))
    except FileExistsError as error:
        raise BadUsage(f"{error.filename} exists already: name another folder") from error
    except OSError as error:
        raise CommandFailed(
            f"{error.filename or folder} can't be written: {error.strerror or error}"
        ) from error
    if as_json:
        screen.emit(written)
        return
    screen.say(f"{counted(len(written), 'image')} written to {folder}")
