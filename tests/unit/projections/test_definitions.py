"""Definitions of tables, and the shape of states in snapshots: whoever changes one says so.

Else rows and snapshots of an older release pass for those of this one.
"""

import json
import re
from hashlib import sha256
from types import NoneType

import pytest

from trackside.aggregates.registry import AGGREGATES
from trackside.domain.folding.streams import state_adapter
from trackside.projections.database.postgres import sql
from trackside.projections.tables.owners import OWNERS
from trackside.projections.writing.definitions import definitions
from trackside.projections.writing.migrate import migrations
from trackside.projections.writing.snapshots import STATE_SHAPE, fold_name

DEFINED = {("dispatcher", 24): "967f349915135b4a", ("scheduler", 21): "8b122a22bc6fb911"}
MIGRATED = (
    *("4ce6070e34a2ec49", "9703c28e59e65760", "24f461e95825ef47", "fe62dfc3bf5eaf46", "3830ff5ddaed20ef"),
    "6182a22ca500bbc7",
)
"""Digests of the migrations 1, 2, 3 ..."""


def test_a_changed_definition_or_fold_is_a_new_generation() -> None:
    """Raise GENERATIONS in definitions.py and write the new digest here, in place of the old one."""
    found = {(wanted.owner, wanted.generation): wanted.digest[:16] for wanted in definitions()}
    assert found == DEFINED


def test_a_numbered_migration_is_never_changed_and_only_adds() -> None:
    found = {step.number: sql("migrations", step.name) for step in migrations()}
    digests = {number: sha256(text.encode()).hexdigest()[:16] for number, text in found.items()}
    assert digests == dict(enumerate(MIGRATED, 1))
    assert not [number for number, text in found.items() if "DROP" in text.upper().split()]


def made() -> dict[str, set[str]]:
    texts = [wanted.statements for wanted in definitions()]
    texts += [sql("migrations", step.name) for step in migrations()]
    found = re.findall(r"^CREATE TABLE (\w+) \((.*?)^\);", "\n".join(texts), re.MULTILINE | re.DOTALL)
    columns = {name: set(re.findall(r"^    (\w+) ", inside, re.MULTILINE)) for name, inside in found}
    for name, column in re.findall(r"^ALTER TABLE (\w+) ADD COLUMN (\w+) ", "\n".join(texts), re.MULTILINE):
        columns[name].add(column)
    assert len(columns) == len(found)
    return columns


def test_every_table_is_made_once_with_the_columns_that_are_written() -> None:
    columns = made()
    for owner in OWNERS.values():
        for table in owner.tables:
            assert set(table.columns) == columns[table.name] - {"PRIMARY"}, table.name
    assert {name for wanted in definitions() for name in wanted.tables} <= set(columns)


def test_the_rows_of_a_stream_are_found_in_every_table_that_has_some() -> None:
    """They are removed when it is forgotten; workers and devices are no streams, and values have tasks."""
    for owner in OWNERS.values():
        of_streams = {table.name for table in owner.tables} - {table.name for table in owner.others}
        assert set(owner.stream_columns) == of_streams - {"workers", "devices"}
    found = {name: column for owner in OWNERS.values() for name, column in owner.stream_columns.items()}
    assert found["trials"] == "search_id"
    assert found["model_versions"] == "model_id"
    assert found["tasks"] == found["artifacts"] == found["uncounted_metrics"] == "stream_id"


@pytest.mark.thorough
def test_the_name_of_the_fold_has_the_digest_of_the_schema_of_all_states() -> None:
    roots = [NoneType, *(aggregate.state for aggregate in AGGREGATES.types)]
    schemas = [state_adapter(root).json_schema() for root in roots]
    shape = sha256(json.dumps(schemas, sort_keys=True).encode()).hexdigest()[:12]
    assert shape == STATE_SHAPE, f"set STATE_SHAPE of trackside.projections.writing.snapshots to {shape}"
    assert fold_name().endswith(f".{shape}")
