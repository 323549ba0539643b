"""Writes docs/reference from the code: messages, topics, settings, metrics, refusals, commands, schemas.

python deploy/reference.py            writes the files
python deploy/reference.py --check    says which of them differ from the code, and exits with 1 if one does
"""

import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from trackside.aggregates import documents
from trackside.cli.app import app
from trackside.contracts.envelope.message import Command, Event, Message
from trackside.contracts.envelope.refusals import (
    ARTIFACT_CODES,
    DEAD_LETTER_CODES,
    JOB_SEARCH_CODES,
    REFUSAL_CODES,
    SUMMARY_READ_CODES,
    TASK_REFUSAL_CODES,
)
from trackside.contracts.envelope.topics import DAY_MS, HOUR_MS, Topic, Topics
from trackside.contracts.wire import codec
from trackside.summary_indexer.api import pages

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
NOTE = "<!-- Written by deploy/reference.py from the code; edit the code instead. -->\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table; bars and line breaks within cells are made harmless."""
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    lines += ["| " + " | ".join(_cell(text) for text in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _page(title: str, introduction: str, *parts: str) -> str:
    return "\n".join([f"# {title}\n", NOTE, introduction + "\n", *parts])


def _summary(kind: type[Message]) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


TITLES = {
    "commands": "Commands",
    "events": "Events",
    "fleet": "Fleet",
    "heartbeats": "Heartbeats",
    "device": "Device commands",
    "metrics": "Metrics",
    "logs": "Output",
    "deadLetters": "Dead letters",
    "imports": "Imported streams",
}
"""Titles of channels; the title of any other is what its topic holds."""


def messages() -> str:
    """Returns the page of all messages, by topic."""
    parts = []
    for name, _, topic, kinds in documents.channels():
        parts.append(f"## {TITLES.get(name, topic.what.capitalize())}: `{_placeholders(topic.name)}`\n")
        parts.append(table(("Type", "Written by", "Means"), (_message_row(kind) for kind in kinds)))
    introduction = (
        "Every message is a CloudEvent: the attributes in Kafka headers, the value as JSON. A type links to "
        "its JSON Schema; [asyncapi.json](messages/asyncapi.json) describes all channels.\n\n"
        "An event names its cause as `ce_causationid`: `<stream>@<offset>`, the offset of the event that it "
        "rests on, in the partition of that stream. The events of one decision share a cause, a device "
        "command names one too, and the events of a worker repeat that of the command they rest on. "
        "`CommandReceived`, `WorkerJoined`, heartbeats and dead letters have none.\n\n"
        "A worker numbers the events that name its incarnation (`ce_sequence`), from its `WorkerJoined` on, "
        "in the order in which they happened: the end of a placement is numbered when its devices are free, "
        "which may be before it is reported. What is recovered after a crash has no number. The order of "
        "a worker's events in different partitions is that of these numbers, not of times."
    )
    return _page("Messages", introduction, *parts)


def _placeholders(name: str) -> str:
    return name.replace("{", "<").replace("}", ">")


def _message_row(kind: type[Message]) -> tuple[str, str, str]:
    wire = kind.wire_type()
    roles = ", ".join(sorted(kind.written_by)) if issubclass(kind, Event) else ""
    if issubclass(kind, Command):
        roles = "scheduler" if kind in codec.DEVICE_COMMANDS else "any client"
    return f"[`{wire}`](messages/{wire}.json)", roles or "every service", _summary(kind)


def topics() -> str:
    """Returns the page of all topics with the settings that promises rest on."""
    names = Topics()
    every = (*names.shared, names.device("<worker>", "<device>"))
    rows = (
        (f"`{topic.name}`", topic.keyed_by, str(topic.partitions), _kept(topic), topic.what)
        for topic in every
    )
    settings = ((f"`{topic.name}`", _settings_of(topic)) for topic in every)
    introduction = (
        "Services check these before they start and refuse a topic that differs. `TRACKSIDE_TOPIC_PREFIX` is "
        "put before every name."
    )
    return _page(
        "Topics",
        introduction,
        table(("Topic", "Key", "Partitions", "Kept", "Holds"), rows),
        "## Broker settings\n",
        table(("Topic", "Settings"), settings),
    )


def topic_rights() -> str:
    """Returns the page of the rights of all principals to topics."""
    sys.path.insert(0, str(ROOT))
    from deploy import rights_texts

    return _page(
        "Rights",
        rights_texts.INTRODUCTION,
        "## By topic\n",
        table(rights_texts.USE_HEAD, rights_texts.uses()),
        "## By principal\n",
        table(rights_texts.HEAD, rights_texts.rows()),
    )


def _kept(topic: Topic) -> str:
    if topic.retention_ms < 0:
        return "without limit"
    if topic.retention_ms % DAY_MS == 0:
        days = topic.retention_ms // DAY_MS
        return f"{days} days" if days > 1 else "1 day"
    return f"{topic.retention_ms // HOUR_MS} h"


def _settings_of(topic: Topic) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in sorted(topic.settings.items()))


def settings_classes() -> Iterator[type[BaseSettings]]:
    """Yields the settings classes of all packages: those in modules named settings."""
    for source in (*sorted(ROOT.glob("libs/*/src")), *sorted(ROOT.glob("services/*/src"))):
        for path in sorted(source.rglob("settings.py")):
            module = importlib.import_module(".".join(path.relative_to(source).with_suffix("").parts))
            for kind in vars(module).values():
                if (
                    isinstance(kind, type)
                    and issubclass(kind, BaseSettings)
                    and kind.__module__ == module.__name__
                ):
                    yield kind


def settings() -> str:
    """Returns the page of all settings, as environment variables."""
    parts = []
    for kind in settings_classes():
        package = kind.__module__.removesuffix(".settings")
        parts.append(f"## {kind.__name__} (`{package}`)\n\n{(kind.__doc__ or '').strip()}\n")
        prefix = kind.model_config.get("env_prefix", "")
        rows = (
            (f"`{(prefix + name).upper()}`", *_setting(field)) for name, field in kind.model_fields.items()
        )
        parts.append(table(("Variable", "Default", "Limits", "Means"), rows))
    introduction = (
        "Environment variables, read once when a service starts. A bad value stops it with exit code 2, "
        "naming the variable. A variable that begins with `TRACKSIDE_` and is none of a release is named on "
        "standard error at the start of every service and command, with the nearest that is one, and has no "
        "effect."
    )
    return _page("Settings", introduction, *parts)


def _setting(field: FieldInfo) -> tuple[str, str, str]:
    limits = []
    for mark in field.metadata:
        for name, sign in (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<")):
            if hasattr(mark, name):
                limits.append(f"{sign} {getattr(mark, name)}")
        if getattr(mark, "min_length", None):
            limits.append("not empty")
    return _default(field), ", ".join(dict.fromkeys(limits)), field.description or ""


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "made at start"
    if field.default is PydanticUndefined:
        return "must be set"
    return "empty" if field.default == "" else f"`{_shown(field.default)}`"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def metrics() -> str:
    """Returns the page of all metrics as Prometheus has them."""
    sys.path.insert(0, str(ROOT))
    from deploy import metric_texts

    return _page("Metrics", metric_texts.INTRODUCTION, table(metric_texts.HEAD, metric_texts.rows()))


def refusals() -> str:
    """Returns the page of all codes of refusals and dead letters."""
    introduction = (
        "A command that cannot be accepted is answered by a `CommandRefused` event: a code, the JSON path "
        "of what is wrong (`$` is the body, `$id` an attribute) and a message. If several things are wrong, "
        "these are those of the first, and `problems` lists all, at most 100. A number beyond its bounds "
        "gives the code `<field>_range`."
    )
    return _page(
        "Refusals",
        introduction,
        table(("Code", "Why"), ((f"`{code}`", why) for code, why in REFUSAL_CODES.items())),
        "## Tasks\n",
        "A worker that does not run a task writes a `TaskRefused` event.\n",
        table(("Code", "Why"), ((f"`{code}`", why) for code, why in TASK_REFUSAL_CODES.items())),
        "## Artifacts\n",
        "An error of a task, a worker or a command has one of these where an artifact is at fault.\n",
        table(("Code", "Why"), ((f"`{code}`", why) for code, why in ARTIFACT_CODES.items())),
        "## Reads of summaries\n",
        "A command that reads summaries, or an answer over HTTP, has one of these.\n",
        table(("Code", "Why"), ((f"`{code}`", why) for code, why in SUMMARY_READ_CODES.items())),
        "## Searches over jobs\n",
        "A search over jobs is refused with the part of it that is wrong, and in a condition the column.\n",
        table(("Code", "Why"), ((f"`{code}`", why) for code, why in JOB_SEARCH_CODES.items())),
        "## Dead letters\n",
        "Undecodable records cannot be answered; they are kept in the dead letters.\n",
        table(("Code", "Why"), ((f"`{code}`", why) for code, why in DEAD_LETTER_CODES.items())),
    )


def summaries() -> str:
    """Returns the page of what the summary-indexer answers over HTTP."""
    introduction = (
        "The summary-indexer answers `GET` and `HEAD` requests on the port of its `/ready`, on loopback "
        "unless `TRACKSIDE_HEALTH_HOST` says otherwise: there is no login. A job is a task or a directory "
        "with event files. An unknown parameter, or a value out of its limits, is refused."
    )
    kinds = ", ".join(f"`{name}`" for name in pages.KINDS_OF_PAGES)
    rows = (
        (
            f"`{re.sub(':[^}]*', '', path)}`",
            ", ".join(f"`{name}`" for name in parameters),
            inspect.cleandoc(page.__doc__ or "").partition("\n\n")[0],
        )
        for path, page, parameters in pages.PAGES
    )
    values = (
        ("`job`, `tag`", "May be repeated: each job, and each tag. Without a tag all of them."),
        ("`from_step`, `to_step`, `from_ms`, `to_ms`", "A range of steps or times; both ends are included."),
        ("`axis`", "`step`, `relative` (seconds since the first point) or `wall` (ms since 1970)."),
        ("`limit`", "Values of a series, or jobs of a page. `all`: every point of a curve, not thinned."),
        (
            "`superseded`",
            "`true`: each attempt or session alone, also values that a later one has again. `attempt` then "
            "says which: of a directory, 10,000 times the number of the file and how often it began again.",
        ),
        ("`cursor`, `page`", "`next_cursor` of the page before, or a number from 0; `offset` is `page`."),
        ("`deleted`", "`true`: deleted jobs too."),
        ("`kind`", "Of the tags: a kind as they name it, such as `scalar`, `image` or `histogram`."),
        ("`index`", "Which of several values of a step, from 0."),
        (
            "`part`, `dims`",
            "Of a tensor: `statistics`, `histogram`, or the `slice` that `[0, :, 2:5]` names.",
        ),
        ("`parent`, `search`, `all`", "Nodes of a graph: below one, with a text in their name, or all."),
        ("`where`", "A condition of [search](../job-search.md); without one all jobs match."),
        ("`sort`, `descending`", "The name that jobs are sorted by; without one the newest are first."),
        ("`column`", "May be repeated: names whose types, and of metrics the values, the answer has too."),
    )
    errors = (
        "A value of a curve that is not finite is `null` in `values`, and `non_finite` has its name by its "
        'index. A refusal is `{"error": {"code", "path", "message", "hint"}}` with status 400, 404, 405, '
        "413, 500 or 503; [refusals](refusals.md) has the codes. Of an image, only PNG, JPEG, GIF, WebP and "
        "BMP are served as pictures; other bytes are a download. On loopback, the `Host` of a request is "
        "`localhost` or an IP address: a page of the web can't read summaries by a name of its own. "
        "A connection has one answer; at most 256 are open, and 64 requests are answered at once. A client "
        "that takes longer than 10 s for its request, or than 30 s and a second for each MiB for the answer, "
        "is cut off.\n"
    )
    return _page(
        "Summaries over HTTP",
        introduction,
        table(("Page", "Parameters", "Answer"), rows),
        f"A `{{kind}}` is one of {kinds}. A `{{name}}` is the name of any kind, such as `text` or one of an "
        "installed package; a value whose bytes are not JSON is a download.\n",
        table(("Parameter", "Means"), values),
        errors,
    )


def command_line() -> str:
    """Returns the page of the command `trackside`: every sub-command with its arguments and options."""
    parts = []
    for name, command in _commands("trackside", typer.main.get_command(app)):
        shown = [parameter for parameter in command.params if "--help" not in parameter.opts]
        needed = [_shown_name(parameter) for parameter in shown if not _is_option(parameter)]
        usage = " ".join([name, *needed])
        parts += [f"## `{usage}`\n", inspect.cleandoc(command.help or "").partition("\n\n")[0] + "\n"]
        if shown:
            parts.append(table(("Parameter", "Meaning"), map(_parameter, shown)))
    introduction = "Exit 0: done. 1: failed. 2: bad usage, or refused. 130: interrupted."
    return _page("The command `trackside`", introduction, *parts)


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for inner in command.commands:
        yield from _commands(f"{name} {inner}", command.commands[inner])


def _shown_name(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name).upper()


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _parameter(parameter: Any) -> tuple[str, str]:
    names = parameter.opts if _is_option(parameter) else [_shown_name(parameter)]
    return ", ".join(f"`{name}`" for name in names), str(getattr(parameter, "help", "") or "")


def files() -> dict[str, str]:
    """Returns every generated file by its path below docs/reference."""
    found = {
        "messages.md": messages(),
        "topics.md": topics(),
        "rights.md": topic_rights(),
        "settings.md": settings(),
        "metrics.md": metrics(),
        "refusals.md": refusals(),
        "summaries.md": summaries(),
        "command-line.md": command_line(),
    }
    return found | {f"messages/{name}": text for name, text in documents.files().items()}


def differing(folder: Path = FOLDER) -> list[str]:
    """Names the committed files that are missing, out of date, or generated no more."""
    wanted = files()
    found = {path.relative_to(folder).as_posix() for path in (folder / "messages").glob("*.json")}
    wrong = {name for name, text in wanted.items() if not _is_text(folder / name, text)}
    return sorted(wrong | (found - wanted.keys()))


def _is_text(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text("utf-8") == text


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the files; gives the exit code."""
    wrong = differing()
    if "--check" in arguments:
        sys.stderr.write("".join(f"out of date: docs/reference/{name}\n" for name in wrong))
        return 1 if wrong else 0
    wanted = files()
    for name in wrong:
        path = FOLDER / name
        if name in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[name], "utf-8")
        else:
            path.unlink()
        sys.stdout.write(f"docs/reference/{name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
