"""Files with documents of Kubernetes, as `kubectl get -o yaml` prints them and as people write them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import ValidationError

from trackside.compat.sedna.kinds import KINDS, SednaDocument
from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.envelope.refusals import Problem, field_names, problems_of
from trackside.sdk.definitions.yaml_core import Document, YamlError, read_yaml

API_VERSION = "sedna.io/v1alpha1"
SECRET = "Secret"
MAX_FILE_BYTES = 4 * 1024 * 1024
_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)


class DocumentPlace(NamedTuple):
    """Where something is in a file: its line, counted from 1, and its JSON path within the document."""

    file: str
    line: int
    path: str

    def __str__(self) -> str:
        """Returns the place as `FILE:LINE: PATH`."""
        return f"{self.file}:{self.line}: {self.path}"


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document of Sedna, and where it is."""

    file: str
    root: str
    """The JSON path of the document within its part of the file: `$`, or `$.items[2]` of a list."""
    lines: Document
    content: SednaDocument

    def place(self, path: str) -> DocumentPlace:
        """Returns the place of a JSON path of the document."""
        return DocumentPlace(self.file, self.lines.line_of(self.root + path.removeprefix("$")), path)


class UnreadableError(Exception):
    """Documents that can't be converted, with all of their problems."""

    def __init__(self, problems: Sequence[tuple[DocumentPlace, Problem]]) -> None:
        super().__init__("\n  ".join(f"{at}: {each.code}: {each.message}" for at, each in problems))
        self.problems = tuple(problems)


class SecretName(NamedTuple):
    """A Secret of Kubernetes: only its name and its place are read."""

    name: str
    place: DocumentPlace


def read_documents(files: Mapping[str, bytes]) -> tuple[list[ReadDocument], list[SecretName]]:
    """Returns the documents of files by their names, and the Secrets that are among them.

    Raises UnreadableError, with every problem of every file.
    """
    problems: list[tuple[DocumentPlace, Problem]] = []
    found: list[ReadDocument] = []
    secrets: list[SecretName] = []
    for file, octets in files.items():
        before = len(found) + len(secrets) + len(problems)
        for lines, root, value in _objects(file, octets, problems):
            if isinstance(value, dict) and value.get("kind") == SECRET:
                name = (
                    value.get("metadata", {}).get("name") if isinstance(value.get("metadata"), dict) else ""
                )
                secrets.append(SecretName(str(name), DocumentPlace(file, lines.line_of(root), "$")))
            else:
                found += _read(file, lines, root, value, problems)
        if before == len(found) + len(secrets) + len(problems):
            message = f"the file has no document; expected {', '.join(KINDS)} of {API_VERSION}"
            problems.append(
                (DocumentPlace(file, 1, "$"), Problem(code="missing_field", path="$", message=message))
            )
    problems += _bad_ids(found)
    problems += _repeated(found)
    if problems:
        raise UnreadableError(problems)
    return found, secrets


def _objects(
    file: str, octets: bytes, problems: list[tuple[DocumentPlace, Problem]]
) -> Iterator[tuple[Document, str, Any]]:
    """Yields the objects of a file with the lines of their values and their paths; lists item by item."""
    if len(octets) > MAX_FILE_BYTES:
        message = f"the file has {len(octets):,} bytes, more than {MAX_FILE_BYTES:,}"
        problems.append((DocumentPlace(file, 1, "$"), Problem(code="too_long", path="$", message=message)))
        return
    for part in _parts(octets):
        try:
            document = read_yaml(part)
        except YamlError as error:
            message = f"{error}; expected documents of Kubernetes in YAML"
            place = DocumentPlace(file, max(1, error.line), "$")
            problems.append((place, Problem(code="wrong_type", path="$", message=message)))
            continue
        value = document.value
        if isinstance(value, dict) and str(value.get("kind", "")).endswith("List"):
            items = value.get("items")
            for at, item in enumerate(items if isinstance(items, list) else []):
                yield document, f"$.items[{at}]", item
        elif value is not None:
            yield document, "$", value


def _parts(octets: bytes) -> Iterator[bytes]:
    """Yields the documents of a YAML file, each after as many empty lines as there are lines before it."""
    text = octets.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    begin = 0
    for found in [*_SEPARATOR.finditer(text), None]:
        end = len(text) if found is None else found.start()
        lines_before = text.count("\n", 0, begin)
        yield ("\n" * lines_before + text[begin:end]).encode("utf-8", "surrogateescape")
        begin = end if found is None else found.end()


def _read(
    file: str, lines: Document, root: str, value: Any, problems: list[tuple[DocumentPlace, Problem]]
) -> Iterator[ReadDocument]:
    problem = _kind_problem(value)
    if problem is not None:
        path = root + problem.path.removeprefix("$")
        problems.append((DocumentPlace(file, lines.line_of(path), problem.path), problem))
        return
    kind = KINDS[value["kind"]]
    try:
        content = kind.model_validate(value)
    except ValidationError as error:
        for each in problems_of(error, field_names(kind), value):
            path = root + each.path.removeprefix("$")
            problems.append((DocumentPlace(file, lines.line_of(path), each.path), each))
        return
    yield ReadDocument(file, root, lines, content)


def _kind_problem(value: Any) -> Problem | None:
    """Returns why a value is not a document that can be converted; None if it is one."""
    expected = f"expected one of: {', '.join(KINDS)}, of {API_VERSION}"
    if not isinstance(value, dict):
        return Problem(code="wrong_type", path="$", message=f"not a mapping; {expected}")
    if "kind" not in value:
        return Problem(code="missing_field", path="$.kind", message=f"missing; {expected}")
    kind, version = value["kind"], value.get("apiVersion")
    if not isinstance(kind, str) or kind not in KINDS:
        return Problem(
            code="unknown_value", path="$.kind", message=f"{kind!r} can't be converted; {expected}"
        )
    if version != API_VERSION:
        message = f"{version!r} is not a version that can be converted; expected {API_VERSION}"
        return Problem(code="unknown_value", path="$.apiVersion", message=message)
    return None


def _bad_ids(found: Sequence[ReadDocument]) -> Iterator[tuple[DocumentPlace, Problem]]:
    for each in found:
        if not is_identifier(id_of(each.content)):
            message = f"{id_of(each.content)!r} is not an id: expected {IDENTIFIER_RULE}"
            problem = Problem(code="bad_identifier", path="$.metadata.name", message=message)
            yield each.place("$.metadata.name"), problem


def _repeated(found: Sequence[ReadDocument]) -> Iterator[tuple[DocumentPlace, Problem]]:
    first: dict[tuple[str, str], ReadDocument] = {}
    for each in found:
        key = (each.content.kind, id_of(each.content))
        if key in first:
            message = (
                f"the {key[0]} {key[1]} is repeated: it is also at {first[key].place('$.metadata.name')}"
            )
            problem = Problem(code="already_exists", path="$.metadata.name", message=message)
            yield each.place("$.metadata.name"), problem
        first.setdefault(key, each)


def id_of(document: SednaDocument) -> str:
    """Returns the id that a document gets: its name, after its namespace unless that is the default one."""
    return in_namespace(document, document.metadata.name)


def in_namespace(document: SednaDocument, name: str) -> str:
    """Returns the id of what a document names in its namespace."""
    namespace = document.metadata.namespace
    return name if namespace in ("", "default") else f"{namespace}.{name}"
