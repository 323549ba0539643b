"""Reads a command as it comes from anyone: either CloudEvents mode, strict JSON, limits on everything."""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from typing import Any

from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.redaction import looks_secret, may_have_secret
from trackside.contracts.envelope.refusals import MAX_PROBLEMS, Problem, json_path
from trackside.contracts.envelope.secret_references import Location
from trackside.contracts.wire.codec import UndecodableError
from trackside.contracts.wire.secret_search import A_KEY, secrets_in

MAX_DEPTH = 32
MAX_ITEMS = 10_000
MAX_KEY = 256
MAX_TEXT = 65_536
MAX_WHOLE = 2**63 - 1
SUSPECTED = "secret_suspected"
_IS_SECRET = "looks like a secret, which is not repeated; "
_NAME_ONE = 'name one of the worker\'s host: {"secret": "NAME"}'
_NO_DEFAULT = f"leave the default out, or {_NAME_ONE}"
_VARIABLE = (
    "a search space can't have one: the task type gets it as a variable, if `environment` of the catalogue "
    "says VARIABLE: {secret: NAME}"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A command as it arrived: addressed, digested, with all that is wrong with it as a record.

    `stream` and `command_id` are empty when the publisher gave none that is usable; `receipt_to` is the topic
    that wants the answer too; `encrypted` says whether a stream that it begins is to be encrypted.
    """

    command_id: str
    command_type: str
    stream: str
    publisher: str
    traceparent: str
    body: Json | None
    digest: str
    problems: tuple[Problem, ...]
    receipt_to: str = ""
    encrypted: bool = False

    @property
    def problem(self) -> Problem | None:
        """The first problem, None if there is none."""
        return self.problems[0] if self.problems else None


class _DuplicateKeyError(ValueError):
    pass


def read_command(headers: Mapping[str, bytes], key: bytes | None, value: bytes | None) -> Arrival:
    """Reads a record of the commands topic; raises UndecodableError for what has no JSON object.

    The stream is the attribute `partitionkey`, else the record's key, else the command's id.
    """
    body, unread = _parsed(value)
    problems: list[Problem] = []
    attributes: dict[str, Any]
    if _is_structured(headers, body):
        attributes = {name: body[name] for name in body if name != "data"}
        inner = body.get("data")
        if not isinstance(inner, dict):
            problems = [Problem(code="wrong_type", path="$.data", message="data must be an object")]
            inner = {}
        body = inner
    else:
        attributes = {name[3:]: _text(octets) for name, octets in headers.items() if name.startswith("ce_")}
    attributes.setdefault("traceparent", _text(headers.get("traceparent", b"")))
    problems = [*_bad_attributes(attributes), *problems]
    unfit = [unread] if unread else list(islice(chain(_unfit(body), _secrets(body, value)), MAX_PROBLEMS))
    digest = digest_of(_attribute(attributes, "type"), value or b"" if unfit else body)
    # Without a readable value nothing is known of the attributes that may be in it.
    found = unfit if unread else [*problems, *_bad_envelope(attributes, key, problems), *unfit]
    return _arrival(attributes, key, body, digest, found)


def publisher_of(key_id: str, source: str) -> str:
    """Returns who published a command: the key of its verified signature if it has one, else its source.

    Kafka does not tell a consumer which principal has written a record.
    """
    return f"key:{key_id}" if key_id else f"source:{source}"


def _is_structured(headers: Mapping[str, bytes], body: Json) -> bool:
    """Returns whether the attributes are in the value: by the content type, or as none are elsewhere."""
    if headers.get("content-type", b"").strip().lower().startswith(b"application/cloudevents"):
        return True
    return "specversion" in body and not any(name.startswith("ce_") for name in headers)


def _arrival(
    attributes: Mapping[str, Any],
    key: bytes | None,
    body: Json,
    digest: str,
    problems: list[Problem],
) -> Arrival:
    command_id = _attribute(attributes, "id")
    command_type = _attribute(attributes, "type")
    traceparent = _attribute(attributes, "traceparent")
    stream = _stream(attributes, key)
    bad_key = _bad_key(attributes, key)
    problems = problems if bad_key is None else [bad_key, *problems]
    return Arrival(
        command_id=command_id if is_identifier(command_id) else "",
        command_type=command_type[:200],
        stream=stream if is_identifier(stream) else "",
        publisher=_attribute(attributes, "source")[:200],
        traceparent=traceparent if _TRACEPARENT.fullmatch(traceparent) else "",
        body=None if problems else body,
        digest=digest,
        problems=tuple(problems),
        receipt_to=_attribute(attributes, "receiptto"),
        encrypted=_is_encrypted(attributes.get("encrypted")),
    )


def _is_encrypted(value: object) -> bool:
    """Returns whether the attribute `encrypted` is true, as JSON or as a header has it."""
    return value is True or value == "true"


def _stream(attributes: Mapping[str, Any], key: bytes | None) -> str:
    keyed = _text(key or b"")
    usable = "" if _unfit_attribute(keyed) else keyed
    return _attribute(attributes, "partitionkey") or usable or _attribute(attributes, "id")


def _bad_key(attributes: Mapping[str, Any], key: bytes | None) -> Problem | None:
    keyed, named = _text(key or b""), _attribute(attributes, "partitionkey")
    if unfit := _unfit_attribute(keyed):
        return Problem(code=unfit[0], path="$key", message=f"the key: {unfit[1]}")
    if named and keyed and named != keyed:
        message = f"the record's key {keyed[:200]!r} is not the attribute partitionkey {named[:200]!r}"
        return Problem(code="key_mismatch", path="$key", message=message)
    return None


def _bad_envelope(
    attributes: Mapping[str, Any], key: bytes | None, known: list[Problem]
) -> Iterator[Problem]:
    """Yields what is wrong with id, stream and type of a command, but for the places of known problems."""
    places = {problem.path for problem in known}
    found = (
        _bad_id("$id", _attribute(attributes, "id")),
        _bad_id("$partitionkey", _stream(attributes, key)),
        _missing_type(_attribute(attributes, "type")),
    )
    return (problem for problem in found if problem is not None and problem.path not in places)


def _attribute(attributes: Mapping[str, Any], name: str) -> str:
    """Returns an attribute's text, empty if it is missing or can't be kept."""
    value = attributes.get(name)
    return value if isinstance(value, str) and _unfit_attribute(value) is None else ""


def _bad_attributes(attributes: Mapping[str, Any]) -> Iterator[Problem]:
    for name in ("id", "type", "source", "partitionkey", "receiptto"):
        value = attributes.get(name)
        if value is not None and not isinstance(value, str):
            message = f"the attribute {name} must be a string, got {type(value).__name__}"
            yield Problem(code="wrong_type", path=f"${name}", message=message)
        elif value is not None and (bad := _unfit_attribute(value)):
            yield Problem(code=bad[0], path=f"${name}", message=f"the attribute {name}: {bad[1]}")
    if attributes.get("encrypted") not in (None, True, False, "true", "false"):
        message = "the attribute encrypted must be true or false"
        yield Problem(code="wrong_type", path="$encrypted", message=message)


def digest_of(command_type: str, body: Json | bytes) -> str:
    """Digests what a command says, however its JSON is written; bytes where it says nothing that fits."""
    if isinstance(body, bytes):
        return hashlib.sha256(f"{command_type}:".encode() + body).hexdigest()
    canonical = json.dumps([command_type, body], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _bad_id(path: str, text: str) -> Problem | None:
    if not text:
        return Problem(code="missing_header", path=path, message=f"the attribute {path[1:]} is missing")
    if not is_identifier(text):
        return Problem(code="bad_identifier", path=path, message=f"expected {IDENTIFIER_RULE}")
    return None


def _missing_type(command_type: str) -> Problem | None:
    if command_type:
        return None
    return Problem(code="missing_header", path="$type", message="the attribute type is missing")


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "replace")


def _parsed(value: bytes | None) -> tuple[Json, Problem | None]:
    if not value:
        raise UndecodableError("empty_payload", "the record has no value")
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UndecodableError("not_utf8", f"byte {error.start} is not UTF-8") from error
    try:
        parsed = json.loads(text, object_pairs_hook=_unique)
    except _DuplicateKeyError as error:
        return {}, Problem(code="duplicate_key", message=error.args[0])
    except RecursionError:
        return {}, Problem(code="too_deep", message=f"nested deeper than {MAX_DEPTH}")
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}: {error.msg}"
        raise UndecodableError("not_json", where) from error
    except ValueError:
        return {}, Problem(code="out_of_range", message="an integer has too many digits")
    if not isinstance(parsed, dict):
        raise UndecodableError("not_object", f"expected a JSON object, got {type(parsed).__name__}")
    return parsed, None


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    found: Json = {}
    for name, value in pairs:
        if name in found:
            hidden = _unfit_text(name, MAX_KEY) or looks_secret(name)
            shown = "a key that can't be shown" if hidden else f"key {name!r}"
            raise _DuplicateKeyError(f"{shown} is repeated")
        found[name] = value
    return found


def _unfit(body: Json) -> Iterator[Problem]:
    """Yields what in a body is beyond the limits, walking it without recursion; not what is within that."""
    waiting: list[tuple[tuple[int | str, ...], Any]] = [((), body)]
    while waiting:
        path, value = waiting.pop()
        reason = _unfit_value(value, len(path))
        if reason is not None:
            yield Problem(code=reason[0], path=json_path(path), message=reason[1])
        elif isinstance(value, dict):
            for name, inner in value.items():
                if bad := _unfit_text(name, MAX_KEY):
                    yield Problem(code=bad[0], path=json_path(path), message=f"a key: {bad[1]}")
                elif not looks_secret(name):  # its place would repeat it
                    waiting.append(((*path, name), inner))
        elif isinstance(value, list):
            waiting.extend(((*path, at), inner) for at, inner in enumerate(value))


def _secrets(body: Json, octets: bytes | None) -> Iterator[Problem]:
    """Yields where a body has what looks like a secret, with what to write instead."""
    for path in secrets_in(body) if may_have_secret(octets or b"") else ():
        message = _IS_SECRET + _instead(path)
        if path[-1] == A_KEY:
            path, message = path[:-1], f"a key: {message}"
        yield Problem(code=SUSPECTED, path=json_path(takewhile(_is_fit, path[:MAX_DEPTH])), message=message)


def _is_fit(part: int | str) -> bool:
    return isinstance(part, int) or _unfit_text(part, MAX_KEY) is None


def _instead(path: Location) -> str:
    names = [part for part in path if isinstance(part, str)]
    if "space" in names[:-1]:
        return _VARIABLE
    return _NO_DEFAULT if names[-1] == "default" else _NAME_ONE


def _unfit_value(value: Any, depth: int) -> tuple[str, str] | None:
    if depth > MAX_DEPTH:
        return "too_deep", f"{depth} > {MAX_DEPTH} levels"
    if isinstance(value, dict | list) and len(value) > MAX_ITEMS:
        return "too_long", f"{len(value)} > {MAX_ITEMS} items"
    if isinstance(value, float) and not math.isfinite(value):
        return "not_finite", "not a finite number"
    if isinstance(value, int) and abs(value) > MAX_WHOLE:
        return "out_of_range", f"beyond {MAX_WHOLE}"
    if isinstance(value, str):
        return _unfit_text(value, MAX_TEXT)
    return None


def _unfit_attribute(text: str) -> tuple[str, str] | None:
    return (SUSPECTED, _IS_SECRET + _NAME_ONE) if looks_secret(text) else _unfit_text(text, MAX_TEXT)


def _unfit_text(text: str, limit: int) -> tuple[str, str] | None:
    if len(text) > limit:
        return "too_long", f"{len(text)} > {limit} characters"
    if "\x00" in text:
        return "nul_character", "holds a NUL character"
    if _SURROGATE.search(text):
        return "bad_unicode", "holds a lone surrogate"
    return None
