import re

import pytest

from tests.unit.docs.pages import page, rows_below
from trackside.aggregates.search.messages import StartSearch
from trackside.aggregates.search.space.builtin_assessors import ASSESSORS
from trackside.aggregates.search.space.builtin_tuners import TUNERS, check_tuner
from trackside.aggregates.search.space.space import NNI_FIELDS, TYPES
from trackside.sdk.definitions.specs import parse_spec

PAGES = ("searches.md", "search-spaces.md", "tuners.md", "assessors.md")
TEXT = "\n".join(map(page, PAGES))
FILES = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def table(head: str) -> dict[str, list[str]]:
    return {row[0].strip(" `"): row[1:] for row in rows_below(TEXT, head)}


@pytest.mark.parametrize("text", FILES)
def test_a_file_of_the_page_is_read_and_its_tuner_can_search_its_space(text: str) -> None:
    found = parse_spec(text.encode(), "search.yaml")
    assert isinstance(found, StartSearch)
    plain = found.model_dump(mode="json")
    assert check_tuner(plain["space"], plain["tuner"]) == []


def test_the_table_of_types_is_that_of_the_contracts() -> None:
    rows = table("| type | fields |")
    assert rows.keys() == TYPES.keys()
    for name, (fields, theirs, _) in rows.items():
        own = [field for field in TYPES[name].model_fields if field != "type"]
        assert re.findall(r"`(\w+)`", fields) == own
        if name in NNI_FIELDS:
            listed = ["q" if field == "step" else field for field in NNI_FIELDS[name]]
            assert theirs == f"`[{', '.join(listed)}]`"


def test_the_tables_of_tuners_and_assessors_have_every_option() -> None:
    rows = table("| tuner | method |")
    assert rows.keys() == TUNERS.keys()
    for name, (_, options) in rows.items():
        listed = re.findall(r"`(\w+)`", options)
        listed = [*TUNERS["nsga2"].options, *listed] if options.startswith("the same") else listed
        assert listed == list(TUNERS[name].options)
    rows = table("| assessor | stops a trial |")
    assert list(rows) == list(ASSESSORS)
    before: list[str] = []
    for name, (_, options) in rows.items():
        listed = re.findall(r"`(\w+)`", options)
        before = [*before, *listed] if options.startswith("the same") else listed
        assert before == list(ASSESSORS[name])


def test_the_table_of_support_is_that_of_the_code() -> None:
    head = TEXT[TEXT.index("| tuner | choice | sub-spaces") :].splitlines()[0]
    columns = [cell.strip() for cell in head.strip("|").split("|")][1:]
    rows = table("| tuner | choice | sub-spaces")
    assert rows.keys() == TUNERS.keys()
    for name, cells in rows.items():
        for column, cell in zip(columns, cells, strict=True):
            kind = TUNERS[name]
            wanted = kind.nested if column == "sub-spaces" else set(column.split(", ")) <= kind.types
            assert cell.strip(" |") == ("yes" if wanted else "-"), (name, column)
