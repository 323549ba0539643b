import re
from functools import partial

from pydantic import BaseModel

from tests.unit.docs.pages import page, rows_below
from trackside.aggregates import documents
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import Assessor, SearchStatus, StartSearch, TrialStatus, Tuner
from trackside.contracts.tasks.resources import Resources

PAGE = page("nni.md")
cells = partial(rows_below, PAGE)
NESTED: dict[str, type[BaseModel]] = {"tuner": Tuner, "assessor": Assessor, "resources": Resources}


def test_every_code_of_nni_has_its_command_and_every_message_that_is_named_is_one() -> None:
    rows = cells("| NNI | code | command |")
    assert [row[1] for row in rows] == ["IN", "GE", "ME", "SS", "FD", "AD", "EN", "TE", "PI"]
    commands = {kind.__name__ for kind in AGGREGATES.commands}
    assert {row[2].strip("`") for row in rows} - {"-"} <= commands
    known = {kind.__name__ for kind in documents.messages()}
    words = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`", PAGE))
    assert words <= known and len(words) > 20


def test_d37_every_field_of_ours_that_the_page_names_is_one() -> None:
    rows = cells("| NNI | trackside | difference |")
    paths = [path for row in rows for path in re.findall(r"`([\w.]+)`", row[1])]
    assert len(paths) > 15
    for path in paths:
        name, _, inner = path.partition(".")
        assert name in StartSearch.model_fields, path
        assert not inner or inner in NESTED[name].model_fields, path


def test_every_state_of_ours_is_on_the_page() -> None:
    states = " ".join(row[0] for row in cells("| NNI's experiment | trackside |"))
    told = states + PAGE
    assert all(re.search(rf"\b{state.value}\b", told) for state in SearchStatus)
    assert {state.value for state in TrialStatus} >= {"SYS_CANCELED", "FAILED"}
