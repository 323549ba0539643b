"""A search space is read in our form and in NNI's (D31), and written in ours."""

import json

from tests.unit.aggregates.search.test_choice_values import accepted, read
from trackside.aggregates.search.space.space import NNI_FIELDS, TYPES, NniParameter

NESTED = [
    {
        "_name": "conv",
        "k": {"_type": "choice", "_value": [3, 5]},
        "name": {"_type": "randint", "_value": [1, 3]},
        "pool": {"_type": "choice", "_value": [{"_name": "max"}, {"_name": "mean", "p": {}}]},
    },
    {"_name": "dense", "units": {"_type": "quniform", "_value": [16, 64, 16]}},
    "empty",
]


def test_a_space_cannot_have_a_secret() -> None:
    for parameter in (
        {"type": "choice", "values": [1, {"secret": "kaggle"}]},
        {"_type": "choice", "_value": [[{"secret": "kaggle"}]]},
        {"type": "constant", "value": {"secret": "kaggle"}},
        {"type": "constant", "value": {"login": {"secret": "kaggle"}}},
    ):
        found = str(read({"key": parameter}))
        assert "a search space can't have a secret; the task type gets it as a variable" in found


def test_every_type_but_constants_has_a_form_of_nni() -> None:
    assert TYPES.keys() - NNI_FIELDS.keys() == {"choice", "constant"}
    listed = NniParameter.model_json_schema()["properties"]["_type"]["enum"]
    assert set(listed) == TYPES.keys() - {"constant"}


def test_a_nested_choice_of_nni_keeps_its_names_and_its_order() -> None:
    nested = json.loads(json.dumps(NESTED))
    nested[0]["pool"]["_value"][1]["p"] = {"type": "constant", "value": None}
    assert accepted({"layer": {"_type": "choice", "_value": nested}})["layer"] == {
        "type": "choice",
        "values": [
            {
                "_name": "conv",
                "k": {"type": "choice", "values": [3, 5]},
                "name": {"type": "randint", "low": 1, "high": 3},
                "pool": {
                    "type": "choice",
                    "values": [{"_name": "max"}, {"_name": "mean", "p": {"type": "constant", "value": None}}],
                },
            },
            {"_name": "dense", "units": {"type": "quniform", "low": 16.0, "high": 64.0, "step": 16.0}},
            "empty",
        ],
    }
