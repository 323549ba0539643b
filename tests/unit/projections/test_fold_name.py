"""Snapshots name the shape of the states in them, so that those of another shape are not read."""

import json
from hashlib import sha256
from types import NoneType

import pytest

from trackside.aggregates.registry import AGGREGATES
from trackside.domain.streams import state_adapter
from trackside.projections.snapshots import STATE_SHAPE, fold_name


@pytest.mark.thorough
def test_the_name_of_the_fold_has_the_digest_of_the_schema_of_all_states() -> None:
    roots = [NoneType, *(aggregate.state for aggregate in AGGREGATES.types)]
    schemas = [state_adapter(root).json_schema() for root in roots]
    shape = sha256(json.dumps(schemas, sort_keys=True).encode()).hexdigest()[:12]
    assert shape == STATE_SHAPE, f"set STATE_SHAPE of trackside.projections.snapshots to {shape}"
    assert fold_name().endswith(f".{shape}")
