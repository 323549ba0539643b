"""Texts that people read, and the words that they do not contain, each with what to write instead."""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

from tests.house import source
from tests.house.source import ROOT, shown

INSTEAD = {
    r"amid": "during",
    r"anew": "again",
    r"behind (?:the |its )?(?:offset|start|record|event|log|command|colon|arrow)\b": "after",
    r"beside": "next to, with, in addition to, compared with",
    r"besides": "also",
    r"(?:its|their|the \w+'s|\w+s'|whose|own|no|last) word": "value, message, decision",
    r"by chance": "at random",
    r"chance (?:gives|decides|stood)": "random",
    r"comes? to nothing": "fails, has no effect",
    r"drawn (?:by|anew)": "sampled, random",
    r"everybody|everyone": "all services, every reader",
    r"evermore|ever after|for ever": "from then on, without limit",
    r"go on|goes on|going on|went on|gone on": "continue",
    r"(?:has|have|had) nothing to say": "is empty",
    r"hears?|heard": "receives, received",
    r"hence|thereof|therein|whereupon|thence|whence|wherein": "use a short sentence",
    r"hopeless": "bad (of a trial: will be stopped)",
    r"in vain": "without effect",
    r"(?:is|are|was|were|be|been|being) told": "receives, is sent",
    r"knows? (?:of )?nothing": "has no information",
    r"lies? (?:in|at|below|there|behind|beyond|around)": "is in",
    r"look(?:s|ed|ing)? into": "inspect, read",
    r"looked at": "shown, checked, read",
    r"made up": "generated",
    r"makes? no odds": "does not matter",
    r"needn't|mustn't|shan't|oughtn't": "does not have to, must not",
    r"no more of": "not",
    r"nobody": "no user, no service, nothing",
    r"obey(?:s|ed|ing)?": "accept, execute",
    r"ought": "should, must",
    r"ow(?:e|es|ed|ing)(?! to)": "pending, has to send",
    r"pass(?:es|ed) over": "ignored, skipped",
    r"push(?:es|ed)? aside": "preempts",
    r"say(?:s|ing)? nothing": "has no information",
    r"says? (?:yes|no) to": "accepts, refuses",
    r"seen to": "observed to, tested to",
    r"shall": "must, will",
    r"slates?": "state of the process",
    r"somebody|someone": "another process, another user",
    r"speaks?|spoken|spoke": "sends, sent",
    r"stands? (?:for|in|beside|below|still|there|open)": "means, is in, pauses",
    r"strays?|astray": "orphans, lost",
    r"the middle one": "the median",
    r"the more of": "the larger of",
    r"till": "until",
    r"turned away": "refused",
    r"unless said": "unless set",
    r"upon": "on, after",
    r"what led to what": "the chain of causes",
    r"whatever": "any, all",
    r"wherever": "where, everywhere that",
    r"whichever": "any",
    r"whoever|whomever": "any service, the user who",
    r"whole life|lives of": "state, events",
    r"elsewhere": "name the place",
    r"believed?|believes": "use, trust",
    r"of its own accord": "without a command",
    r"(?:not|n't) know what": "say what is missing",
    r"anyone|anybody": "any user, any client",
    r"as if it had never": "say what is undone",
    r"comes? by": "gets",
    r"counts? once": "is idempotent, has an effect once",
    r"each by itself": "separately",
    r"from (?:then|now|there) on in": "later",
    r"holds? good": "is valid",
    r"is no use": "cannot be used",
    r"it was given up": "it was stopped",
    r"makes? known": "publishes",
    r"nothing is to be done": "say what the state is",
    r"stood still|stand still|stands still": "paused",
    r"takes? the word": "uses",
    r"the lot of": "all",
    r"wiped? (?:its|the) slate": "is reset",
    r"what nobody": "name the thing",
    r"who takes it": "say what the option selects",
    r"whose turn": "next",
    r"without a say": "say what is refused",
    r"(?<!there )is no (?!longer\b|more\b|such\b)[a-z]+": "is not a, is invalid",
    r"(?:is|are) there (?:twice|again|already)": "is repeated, exists already",
    r"behind (?:the |a |its )?(?:trailer|mail|trial|task|attempt|one|moment)": "after",
    r"in the place of": "instead of, replacing",
    r"of (?:yours|theirs)": "your own, their own",
    r"out of its place": "in the wrong order",
    r"says? (?:no|itself)\b": "has no, contains",
    r"so that it be": "so that it is",
    r"those too": "also those",
    r"whole numbers?": "integer",
    r"worked out": "computed",
}
"""Regular expressions of words, in any case; and what to write instead."""


class Text(NamedTuple):
    """A text that people read: where it is, and what it says."""

    place: str
    text: str


_PATTERNS = {re.compile(rf"(?<![\w-])(?:{word})(?![\w-])", re.IGNORECASE): word for word in INSTEAD}
_NOT_PROSE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)|\b\w*test_\w+", re.MULTILINE | re.DOTALL)
_SPEAKING_CALLS = {
    "BadParameter", "BadUsage", "CommandFailed", "Exit", "Failure", "Problem", "PydanticCustomError",
    "Refusal", "complain", "critical", "debug", "echo", "error", "exception", "info", "problem", "refuse",
    "say", "warning",
}  # fmt: skip
"""Calls whose texts are shown: refusals and errors, lines of the log, lines on the screen."""
_DESCRIBED = {"Field", "Option", "Argument"}
"""Calls that describe settings and options, in `description` or `help`."""


def violations(texts: Iterator[Text]) -> list[str]:
    """Returns a line for each word that should not be in a text: place, word, what to write instead."""
    found = []
    for place, text in texts:
        prose = _NOT_PROSE.sub(lambda gap: "\n" * gap[0].count("\n") or "`", text)
        for pattern, word in _PATTERNS.items():
            for hit in pattern.finditer(prose):
                line = prose.count("\n", 0, hit.start()) + 1
                found.append(f"{place}:{line}: {hit[0]!r}: write {INSTEAD[word]}")
    return sorted(found)


def pages() -> Iterator[Text]:
    """Yields the pages that people write, and those that are generated from the code."""
    found = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
    for folder, pattern in (("docs", "**/*.md"), ("deploy/examples", "**/*.md"), ("services", "*/README.md")):
        found += sorted((ROOT / folder).glob(pattern))
    for path in found:
        if "node_modules" not in path.parts:
            yield Text(shown(path), path.read_text("utf-8"))


def schema_texts() -> Iterator[Text]:
    """Yields the descriptions in the published schemas of all messages."""
    for path in sorted((ROOT / "docs" / "reference" / "messages").glob("*.json")):
        for text in _descriptions(json.loads(path.read_text("utf-8"))):
            yield Text(shown(path), text)


def _descriptions(value: Any) -> Iterator[str]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and isinstance(value.get("description"), str):
        yield value["description"]
    for found in inner:
        yield from _descriptions(found)


def help_texts(app: typer.Typer) -> Iterator[Text]:
    """Yields the help of every command, and of its arguments and options."""
    yield from _help_of("trackside", typer.main.get_command(app))


def _help_of(name: str, command: Any) -> Iterator[Text]:
    yield Text(f"{name} --help", command.help or "")
    for parameter in command.params:
        yield Text(f"{name} {parameter.name}", getattr(parameter, "help", "") or "")
    for inner, found in getattr(command, "commands", {}).items():
        yield from _help_of(f"{name} {inner}", found)


def messages(package: str) -> Iterator[Text]:
    """Yields the texts of errors, refusals, log lines, screen lines and settings in a package's code."""
    for path in source.python_files(f"{package}/src"):
        seen: set[ast.AST] = set()
        for node in source.nodes(path):
            for text in _shown_in(node):
                if text not in seen:
                    seen.add(text)
                    yield Text(f"{shown(path)}:{text.lineno}", str(text.value))


def _shown_in(node: ast.AST) -> Iterator[ast.Constant]:
    """Yields the texts in a statement that raises, or in a call that shows or describes something."""
    if isinstance(node, ast.Raise) and node.exc is not None:
        yield from _texts(node.exc)
    if not isinstance(node, ast.Call):
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _SPEAKING_CALLS:
        yield from _texts(node)
    if name in _DESCRIBED:
        for keyword in node.keywords:
            if keyword.arg in ("description", "help"):
                yield from _texts(keyword.value)


def _texts(node: ast.AST) -> Iterator[ast.Constant]:
    """Yields the texts of more than one word in an expression, those in f-strings included."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and " " in inner.value.strip():
            yield inner
