"""A view of the state of a stream as plain values, by subject, for output and comparison."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.domain.display.task_state import Fields, task_fields
from trackside.domain.streams.command import ReceivedCommand
from trackside.domain.streams.stream import Stream

COMMANDS = "commands"


@dataclass(frozen=True, slots=True)
class StateView:
    """The state of a stream at one time; it doesn't change with the stream.

    `kind` is that of its aggregate, or `commands` for a stream where no command was accepted. `parts` has
    what its view calls its parts, such as trials, by their names; `tasks` are by task id, each with its
    `attempts`. Times are ms since 1970 by the log's clock.
    """

    kind: str
    root: Fields
    commands: dict[str, Fields]
    parts: dict[str, dict[Any, Fields]]
    tasks: dict[str, Fields]

    def as_json(self) -> Fields:
        """Returns the JSON form: lists of objects with their names, empty for parts of other kinds."""
        return {
            "kind": self.kind,
            "state": self.root,
            "commands": [{"command_id": name, **fields} for name, fields in self.commands.items()],
            **{
                plural: [{singular: name, **fields} for name, fields in self.parts.get(plural, {}).items()]
                for plural, singular in part_names().items()
            },
            "tasks": [{"task_id": name, **fields} for name, fields in self.tasks.items()],
        }

    def subjects(self) -> dict[str, Fields]:
        """Returns every subject that has a name, with its fields, in reading order."""
        found = {self.kind: self.root} if self.root else {}
        found |= {f"command {name}": fields for name, fields in self.commands.items()}
        for plural, singular in part_names().items():
            found |= {f"{singular} {name}": fields for name, fields in self.parts.get(plural, {}).items()}
        for name, fields in self.tasks.items():
            plain = {key: value for key, value in fields.items() if key != "attempts"}
            found[f"task {name}"] = plain | {"reports": len(fields["reports"])}
            for attempt in fields["attempts"]:
                plain = {key: value for key, value in attempt.items() if key != "attempt"}
                found[f"task {name} attempt {attempt['attempt']}"] = plain
        return found


def part_names() -> dict[str, str]:
    """Returns what the parts of all aggregates are called, plural to singular: trials to trial."""
    return {plural: singular for each in AGGREGATES.types for plural, singular in each.view.parts.items()}


def state_view(stream: Stream) -> StateView:
    """Returns a view of a stream's state."""
    aggregate, kinds = AGGREGATES.of(stream), tuple(part_names().values())
    return StateView(
        kind=COMMANDS if aggregate is None else aggregate.kind,
        root={} if aggregate is None else aggregate.view.state(stream) | _labels(stream),
        commands={name: _command(command) for name, command in stream.commands.items()},
        parts={} if aggregate is None else aggregate.view.state_of_parts(stream),
        tasks={name: task_fields(task, kinds) for name, task in stream.tasks.items()},
    )


def _labels(stream: Stream) -> Fields:
    """Returns the labels of a stream that was annotated."""
    labels = stream.labels
    if labels is None:
        return {}
    found = {"tags": list(labels.tags), "note": labels.note, "archived": labels.archived}
    return {"stream_labels": found}


def _command(command: ReceivedCommand) -> Fields:
    refused = None if command.answer is None else command.answer
    answer = "accepted" if command.decided else "waiting"
    return {
        "type": command.command_type,
        "offset": command.offset,
        "publications": len(command.publications),
        "answer": answer if refused is None else f"refused: {refused.code}",
        "reason": "" if refused is None else refused.message,
    }


@dataclass(frozen=True, slots=True)
class SubjectChange:
    """The change of one subject between two views; `before` is None for a new one."""

    subject: str
    before: Fields | None
    fields: Mapping[str, tuple[Any, Any]]

    def as_json(self) -> Fields:
        """Returns the JSON form."""
        changed = {name: {"from": old, "to": new} for name, (old, new) in self.fields.items()}
        return {"subject": self.subject, "new": self.before is None, "changed": changed}


def changes(before: StateView | None, after: StateView) -> list[SubjectChange]:
    """Lists the differences between two views of one stream; None is the state before it began."""
    old = {} if before is None else before.subjects()
    found = []
    for subject, fields in after.subjects().items():
        known = old.pop(subject, None)
        was = known or {}
        differing = {
            name: (was.get(name), value)
            for name, value in fields.items()
            if was.get(name) != value and not (known is None and _is_empty(value))
        }
        if differing or known is None:
            found.append(SubjectChange(subject, known, differing))
    found += [SubjectChange(subject, fields, {name: (was, None) for name, was in fields.items()})
              for subject, fields in old.items()]  # fmt: skip
    return found


def _is_empty(value: Any) -> bool:
    return value is None or value is False or value in ("", [], {})
