"""Suggestions are a contract: those of built-in tuners are committed, the formula of seeds is published."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from numpy.random import RandomState

from tests.golden_suggestions import CASES, FOLDER, TRIALS, committed, differences, suggestions
from trackside.aggregates.search.commands.start import default_seed
from trackside.aggregates.search.space.builtin_tuners import TUNERS
from trackside.dispatcher.advisor.advisor import make_tuner
from trackside.dispatcher.tuners.tuner import suggestion_seed

PAGE = Path("docs/tuners.md")
# Computed with `printf 7/3 | b2sum --length 32`, its eight hexadecimal digits read as one number.
SEEDS = {
    "7/0": 0x666C4B44,
    "7/3": 0x7CD33F2A,
    "7/3/1": 0xB6F14776,
    "20261122/19": 0x4EF2BDD9,
    "18446744073709551615/1000000": 0xAF74B0D5,
}
SEED_OF_DIGITS_1 = 0x16F681DFB023  # `printf digits-1 | b2sum --length 48`


def test_there_are_suggestions_of_every_built_in_tuner() -> None:
    assert {tuner["name"] for _, tuner in CASES.values()} == set(TUNERS)
    assert {path.stem for path in FOLDER.glob("*.json")} == set(CASES)


@pytest.mark.parametrize("case", [case for case in CASES if case != "gp"])  # which needs torch
def test_a_tuner_suggests_what_it_did_in_earlier_releases(case: str) -> None:
    found = suggestions(case)
    assert len(found) == TRIALS
    assert list(differences(found, committed(case))) == []


def test_the_seeds_of_trials_and_searches_are_the_published_digests() -> None:
    for text, seed in SEEDS.items():
        search_seed, number, *redraw = map(int, text.split("/"))
        assert suggestion_seed(search_seed, number, *redraw) == seed, text
    assert default_seed("digits-1") == SEED_OF_DIGITS_1


def test_the_page_computes_the_seeds_that_are_used() -> None:
    rows = r"^printf (\S+) \| b2sum --length (\d+) +# ([0-9a-f]+)"
    published = re.findall(rows, PAGE.read_text("utf-8"), re.MULTILINE)
    assert {text for text, _, _ in published} == {"7/3", "7/3/1", "digits-1"}
    for text, bits, digits in published:
        expected = SEED_OF_DIGITS_1 if text == "digits-1" else SEEDS[text]
        assert (int(digits, 16), len(digits) * 4) == (expected, int(bits))
        if program := shutil.which("b2sum"):
            command = [program, "--length", bits]
            done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
            assert done.stdout.split()[0] == digits


def test_random_suggestions_and_the_order_of_a_grid_are_what_numpy_draws_with_the_published_seeds() -> None:
    tuner = make_tuner({"x": {"type": "uniform", "low": 0.0, "high": 1.0}}, {"name": "random"}, 7, "maximize")
    suggested = [tuner.ask(number) for number in range(4)]
    assert suggested[0] == {"x": RandomState(0x666C4B44).uniform(0.0, 1.0)}
    assert suggested[3] == {"x": RandomState(0x7CD33F2A).uniform(0.0, 1.0)}
    tuner = make_tuner({"x": {"type": "randint", "low": 0, "high": 9}}, {"name": "grid"}, 7, "maximize")
    suggested = [tuner.ask(number) for number in range(9)]
    assert suggested == [{"x": point} for point in RandomState(0x666C4B44).permutation(9)]


def test_a_suggestion_that_is_another_one_is_seen() -> None:
    others: list[Any] = [[{"a": value, "b": 2}] for value in (True, 1.00001, None, 1)]
    for other in (*others, [{"b": 2, "a": 1.0}], [{"a": 1.0}], []):
        assert list(differences(other, [{"a": 1.0, "b": 2}])), other
    assert not list(differences([{"a": {"b": 2}}], [{"a": {"b": 2}}]))
