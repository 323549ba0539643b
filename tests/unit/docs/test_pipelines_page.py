import re

import pytest
import yaml

from tests.house.source import ROOT
from trackside import sdk
from trackside.sdk.pipelines import definition_of

PAGE = (ROOT / "docs" / "pipelines.md").read_text("utf-8")
PART = PAGE[PAGE.index("## From Python") :]


def test_the_python_of_the_page_builds_a_definition(capsys: pytest.CaptureFixture[str]) -> None:
    code = re.findall(r"^```python\n(.*?)^```", PART, re.MULTILINE | re.DOTALL)[0]
    exec(code, {})  # noqa: S102 - the page's own
    definition = definition_of(yaml.safe_load(capsys.readouterr().out))
    assert [step.name for step in definition.steps] == ["data", "look", "processing", "training"]
    assert definition.steps[3].parameters == {"lr": "${item}", "epochs": "${pipeline.epochs}"}


def test_the_table_has_all_methods_of_each_class() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PART, re.MULTILINE)
    for name, listed in rows:
        own = {method for method in vars(getattr(sdk, name)) if not method.startswith("_")}
        named = set(re.findall(r"`(\w+)`", listed))
        if name == "Client":
            assert all(hasattr(sdk.Client, method) for method in named)
        else:
            assert named == own - {"definition"}, name
