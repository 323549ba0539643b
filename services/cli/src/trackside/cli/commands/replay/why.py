"""The command `replay why`, and the timeline that it draws."""

import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby

from rich.text import Text

from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.standing import Standing
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.display.text import duration
from trackside.domain.outcome import no_effect
from trackside.domain.streams.causality import StreamSubject
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Log
from trackside.replay.causality.causes import Step
from trackside.replay.causality.why import Subject, Why
from trackside.replay.causality.why import why as causes_of
from trackside.replay.find_stream import find_stream
from trackside.replay.history.errors import UnknownStreamError, UnknownSubjectError

FIRST_CAUSES, LAST_CAUSES = 1, 3
SHOWN_REPORTS = 2
SHOWN_CAUSES = 4
"""How many causes of one type in a row are shown: the first ones and the last one."""
TEXT_AT = 45
"""The column of a line where what has happened begins."""
FIRST_TASKS, MOST_TASKS = 2, 5
"""How many of the first tasks of a part are shown if it has more than these."""
MOST_ORIGINS = 20
"""How many subjects of other streams are explained: a model may go back to tasks that were given models."""
REPORT = "MetricReported"
_LIFE, _CAUSE, _THEN, _VOID, _DOTS = "●", "│", "▸", "✗", "┊"
_STYLES = {_LIFE: "bold", _CAUSE: "", _THEN: "cyan", _VOID: "dim"}


def why(stream_id: str, subject: str, as_json: bool) -> None:
    """Prints the chain of causes of a trial, task, attempt, command or version of a model."""
    run(_why(stream_id, subject, as_json))


async def _why(stream_id: str, subject: str, as_json: bool) -> None:
    addresses = Addresses()
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-replay", keys=addresses.keys) as log:
        topics = Topics(prefix=addresses.prefix)
        found = await causes_of(await find_stream(log, topics, stream_id, addresses.past_states), subject)
        before, missing = await origins_of(log, topics, stream_id, found)
    if as_json:
        earlier = [{"stream": each.stream} | why.as_json() for each, why in before]
        screen.emit({"stream": stream_id} | found.as_json() | {"origins": earlier})
        return
    for origin, why in before:
        _say(origin.stream, why)
        screen.say("")
    for sentence in missing:
        screen.complain(f"trackside: {sentence}")
    _say(stream_id, found)


async def origins_of(
    log: Log, topics: Topics, stream_id: str, found: Why
) -> tuple[list[tuple[StreamSubject, Why]], list[str]]:
    """Returns what an answer goes back to in other streams, with the causes there, and what is not there.

    The chain from a child back to the stream that asked for it ends there.
    """
    answers: dict[StreamSubject, Why] = {}
    missing: list[str] = []
    waiting = found.origins
    while waiting and len(answers) < MOST_ORIGINS:
        origin = waiting.pop(0)
        if origin in answers or origin.stream == stream_id:
            continue
        try:
            answers[origin] = await causes_of(await find_stream(log, topics, origin.stream), origin.subject)
        except (UnknownStreamError, UnknownSubjectError) as error:
            missing.append(str(error))
            continue
        waiting += answers[origin].origins
    return list(answers.items())[::-1], missing


def _say(stream_id: str, found: Why) -> None:
    screen.say(f"{stream_id}: {found.subject.name}")
    if note := note_on(found):
        screen.say(note)
    output = screen.console()
    for line in drawn(found, stream_id):
        if line.no_wrap is False:
            line = Text("\n".join(_wrapped(line.plain, output.width)), line.style)
        output.print(line, no_wrap=True, overflow="ellipsis")


def _wrapped(line: str, width: int) -> list[str]:
    """Breaks a line of the timeline between words, with what follows below its text."""
    head, rest = line[:TEXT_AT], line[TEXT_AT:]
    return textwrap.wrap(rest, max(width, TEXT_AT + 20), initial_indent=head, subsequent_indent=" " * TEXT_AT)


def note_on(found: Why) -> str:
    """Returns a line that says which causes are guesses, empty if the log names all."""
    match found.guessed:
        case "all":
            return "this log names no causes: they were inferred from the state"
        case "some":
            return "the first events of this log name no causes: these were inferred from the state"
        case "none":
            return ""


def drawn(found: Why, stream_id: str = "") -> Iterator[Text]:
    """Draws the timeline: causes, the subject's life, what followed; long stretches are counted.

    Tasks are named without the id of their stream. A line with `no_wrap` set to False is to be read whole.
    """
    first = found.own[0].offset
    direct = {at for step in found.own if not step.task for at in step.also}
    before = _causes([step for step in found.causes if step.offset < first], direct)
    later = [step for step in found.causes if step.offset > first]
    life = _without_middle_tasks(sorted([*found.own, *later], key=lambda step: step.offset), found.subject)
    began = (found.causes or found.own)[0].time_ms
    foreign = {step.offset for step in later}
    for part, steps in ((_CAUSE, before), (_LIFE, life), (_THEN, [*found.then])):
        for step in steps:
            if isinstance(step, str):
                yield Text(f"{'':>29} {_DOTS} {step}", "dim")
                continue
            mark = _CAUSE if step.offset in foreign else part
            line = _line(step, mark if step.standing is Standing.APPLIED else _VOID, began, found.subject)
            if step.task and found.subject.part and not step.what.startswith("Child"):
                line = Text(line.plain.replace(f" {stream_id}.", " ", 1), line.style)
            elif mark == _LIFE and step.part:
                line.no_wrap = False
            yield line


def _causes(steps: Sequence[Step], direct: Collection[int] = ()) -> list[Step | str]:
    """Leaves out what lies within other tasks' lives, and the middle of a long row of tasks.

    What the subject rests on directly, by the offsets in `direct`, is not in that middle.
    """
    groups = groupby(
        (step for step in steps if step.offset not in direct), key=lambda step: (step.task, step.attempt > 1)
    )
    found = _without_middle([list(group) for _, group in groups])
    found += _short([step for step in steps if step.offset in direct])
    return [shown for _, shown in sorted(found, key=lambda line: line[0])]


def _without_middle(groups: Sequence[Sequence[Step]]) -> list[tuple[int, Step | str]]:
    """Returns what is shown of the events of tasks, each with its offset, or the first one left out."""
    middle = groups[FIRST_CAUSES:-LAST_CAUSES]
    found: list[tuple[int, Step | str]] = []
    for at, group in enumerate(groups):
        is_middle = FIRST_CAUSES <= at < len(groups) - LAST_CAUSES
        if is_middle and len(middle) > 1:
            if at == FIRST_CAUSES:
                found.append((group[0].offset, _left_out(middle)))
        elif len(group) <= 3 or not group[0].task:
            found += [(step.offset, step) for step in group]
        else:
            first, *hidden, last = group
            text = f"{len(hidden)} events of task {first.task}"
            found += [(first.offset, first), (hidden[0].offset, text), (last.offset, last)]
    return found


def _short(steps: Sequence[Step]) -> list[tuple[int, Step | str]]:
    """Leaves out the middle of a long row of events of one type, such as of the samples of a round."""
    found: list[tuple[int, Step | str]] = []
    for what, group in groupby(steps, key=lambda step: step.what):
        row = list(group)
        hidden = row[SHOWN_CAUSES - 1 : -1] if len(row) > SHOWN_CAUSES + 1 else []
        found += [(step.offset, step) for step in row if step not in hidden]
        found += [(step.offset, f"and {len(hidden)} more {what}") for step in hidden[:1]]
    return found


def _left_out(groups: Sequence[Sequence[Step]]) -> str:
    events = sum(len(group) for group in groups)
    tasks = len({group[0].task for group in groups if group[0].task})
    return f"{events} events of {tasks} tasks"


def _without_middle_tasks(steps: Sequence[Step], about: Subject) -> list[Step | str]:
    """Leaves out the events of most tasks of a part that has many."""
    tasks = list(dict.fromkeys(step.task for step in steps if step.task and step.part == about.part))
    middle = set(tasks[FIRST_TASKS:-1]) if len(tasks) > MOST_TASKS else set()
    found: list[Step | str] = []
    for is_left_out, group in groupby(steps, key=lambda step: step.task in middle):
        part = list(group)
        found += (
            [f"{len(part)} events of {len({s.task for s in part})} tasks"] if is_left_out else _life(part)
        )
    return found


def _life(steps: Iterable[Step]) -> list[Step | str]:
    """Leaves out the middle of a long row of reports."""
    found: list[Step | str] = []
    for is_report, group in groupby(steps, key=lambda s: s.what == REPORT and s.standing is Standing.APPLIED):
        run_of = list(group)
        if is_report and len(run_of) > 2 * SHOWN_REPORTS:
            hidden = len(run_of) - 2 * SHOWN_REPORTS
            found += [*run_of[:SHOWN_REPORTS], f"{hidden} more reports", *run_of[-SHOWN_REPORTS:]]
        else:
            found += run_of
    return found


def _line(step: Step, mark: str, began_ms: int, about: Subject) -> Text:
    time = datetime.fromtimestamp(step.time_ms / 1000, UTC).astimezone()
    clock = f"{time:%H:%M:%S.%f}"[:12]
    later = _later(step.time_ms - began_ms)
    follows = f" ←{step.follows}" if step.follows >= 0 else ""
    why = no_effect(step.standing, step.distrust)
    void = f" [{why}: no effect]" if why else ""
    outside = f" ({step.outside})" if step.outside else ""
    what = f"{step.what}{follows}{void} {_subject(step, about.task)}{step.said}{outside}".rstrip()
    return Text(f"{step.offset:>7} {clock} {later:>8} {mark} {_writer(step):<12} {what}", _STYLES[mark])


def _subject(step: Step, about: str) -> str:
    """Names task and attempt of an event, the task only if it isn't the one that is asked about."""
    if step.what in ("TrialSuggested", "TrialEnded") or not step.task:
        return ""
    task = "" if step.task == about else step.task
    attempt = f"/{step.attempt}" if step.attempt else ""
    return f"{task}{attempt} " if task or attempt else ""


def _writer(step: Step) -> str:
    name = step.instance if step.instance.startswith(step.role) else f"{step.role}/{step.instance}"
    return name if len(name) <= 12 else f"{name[:11]}…"


def _later(ms: int) -> str:
    return f"+{ms} ms" if ms < 10_000 else f"+{duration(ms / 1000)}".replace(" min", "m")
