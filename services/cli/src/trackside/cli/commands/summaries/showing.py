"""The commands `summaries show` and `summaries tags`: what a job has."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from trackside.cli.commands.summaries.reading import is_directory, read, time_of
from trackside.cli.render import curve_charts, screen
from trackside.contracts.envelope.memory import shown
from trackside.domain.display.text import Column, counted, one_line
from trackside.projections.database.postgres import Connection
from trackside.projections.summaries.jobs import SummaryFileRow, SummaryJobRow, read_files, read_job
from trackside.projections.summaries.scalars import ScalarCurve, ScalarQuery, read_scalars
from trackside.projections.summaries.tags import JobTag, read_tags
from trackside.summaries.kinds.scalar import SCALAR
from trackside.summaries.plotting import ChartCurve

CHARTS = 2
"""How many tags have a chart; the next ones have a line each."""
LINES = 12
CURVE_POINTS = 400
_FIRST = ("objective", "loss", "acc", "val")
"""What tags have in their names whose charts are shown before others."""


@dataclass(frozen=True, slots=True)
class ShownJob:
    """A job with its tags, its files, and the curves that are drawn, charts first."""

    job: SummaryJobRow
    tags: list[JobTag]
    files: list[SummaryFileRow]
    curves: list[ScalarCurve]


def show(job: str, as_json: bool) -> None:
    """Prints what is known of a job, charts of its main curves, and its files."""

    async def found(connection: Connection) -> ShownJob:
        row = await read_job(connection, job)
        tags, files = await read_tags(connection, job), await read_files(connection, job)
        names = [] if as_json else main_tags(tags)[: CHARTS + LINES]
        query = ScalarQuery([job], names, limit=CURVE_POINTS)
        return ShownJob(row, tags, files, await read_scalars(connection, query) if names else [])

    page = read(found)
    if as_json:
        lists = {
            "tags": [asdict(tag) for tag in page.tags],
            "file_list": [asdict(file) for file in page.files],
        }
        screen.emit(asdict(page.job) | lists)
        return
    screen.show_table([Column(""), Column("", keep=True)], _facts(page))
    _show_curves(page)
    others = [tag for tag in page.tags if tag.kind != SCALAR.name]
    if others:
        screen.say("")
        show_tags(others)
    if page.files:
        screen.say("")
        _show_files(page.files)


def tags(job: str, kind: str, limit: int, offset: int, as_json: bool) -> None:
    """Prints the tags of a job by kind."""

    async def found(connection: Connection) -> list[JobTag]:
        return await read_tags(connection, job, kind or None, limit, offset)

    rows = read(found)
    if as_json:
        screen.emit([asdict(row) for row in rows])
        return
    show_tags(rows)
    if len(rows) == limit:
        screen.complain(f"the next ones: --offset {offset + limit}")


def show_tags(tags: Sequence[JobTag]) -> None:
    """Prints a table of tags."""
    columns = [Column("tag"), Column("kind"), Column("values", right=True), Column("steps", right=True)]
    columns += [Column("last", right=True), Column("newest")]
    screen.show_table(
        columns,
        [
            [
                *(one_line(tag.tag), tag.kind, f"{tag.points:,}", _steps(tag)),
                *(tag.last_value, time_of(tag.last_ms)),
            ]
            for tag in tags
        ],
    )


def main_tags(tags: Sequence[JobTag]) -> list[str]:
    """Returns the tags of the curves of a training, those that most people look for first."""
    scalars = [tag.tag for tag in tags if tag.kind == SCALAR.name and not tag.is_system]

    def place(tag: str) -> int:
        name = tag.lower()
        return next((at for at, part in enumerate(_FIRST) if part in name), len(_FIRST))

    return sorted(scalars, key=place)


def _facts(page: ShownJob) -> list[tuple[str, object]]:
    job = page.job
    facts: list[tuple[str, object]] = [("job", job.job_id), ("state", job.state)]
    if is_directory(job):
        quarantined = f", {job.quarantined} quarantined" if job.quarantined else ""
        facts += [
            ("directory", f"{job.base.rstrip('/')}/{job.path}".removesuffix("/.")),
            ("files", f"{job.files}, {shown(job.bytes)}{quarantined}"),
        ]
    else:
        facts.append(("stream", job.stream_id))
    found = ((job.points, "point"), (job.items, "other value"), (len(page.tags), "tag"))
    values = ", ".join(counted(count, what) for count, what in found)
    facts += [("values", values), ("last step", job.last_step)]
    facts += [("first", time_of(job.first_ms)), ("newest", time_of(job.last_ms))]
    facts += [("tag", job.tag), ("remark", job.remark)]
    return [(name, value) for name, value in facts if value not in (None, "")]


def _show_curves(page: ShownJob) -> None:
    curves = [ChartCurve(each.tag, each.positions, each.points.values) for each in page.curves]
    for curve in curves[:CHARTS]:
        screen.say("")
        curve_charts.show_chart([curve], height=curve_charts.SMALL)
    by_name = {tag.tag: tag for tag in page.tags if tag.kind == SCALAR.name}
    if lines := curves[CHARTS:]:
        screen.say("")
        columns = [
            Column("tag"),
            Column("values", right=True),
            Column("last", right=True),
            Column("", keep=True),
        ]
        rows = [
            [
                one_line(one.name),
                by_name[one.name].points,
                by_name[one.name].last_value,
                curve_charts.spark(one),
            ]
            for one in lines
        ]
        screen.show_table(columns, rows)
    scalars = len(by_name)
    if scalars > len(curves):
        screen.say(f"{scalars - len(curves):,} more: trackside summaries tags {page.job.job_id}")


def _show_files(files: Sequence[SummaryFileRow]) -> None:
    columns = [Column("file"), Column("bytes", right=True, keep=True)]
    columns += [Column("records", right=True, optional=True), Column("state", keep=True)]
    columns += [Column("problem"), Column("again", keep=True)]
    rows = [
        [
            *(one_line(file.file), f"{file.end_byte:,}", f"{file.records:,}", file.status.lower()),
            *(": ".join(filter(None, (file.code, file.message))), time_of(file.again_at_ms)),
        ]
        for file in files
    ]
    screen.show_table(columns, rows)


def _steps(tag: JobTag) -> str:
    return f"{tag.first_step}-{tag.last_step}" if tag.first_step != tag.last_step else str(tag.first_step)
