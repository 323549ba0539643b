"""Texts for people are in standard technical English: no page, help text or message has words of the list."""

import json

import pytest

from tests.house import source, words
from tests.house.source import ROOT, shown
from tests.house.words import Text
from trackside.cli.app import app


def test_no_page_has_a_word_of_the_list() -> None:
    assert words.violations(words.pages()) == []


def test_no_schema_has_a_word_of_the_list() -> None:
    assert words.violations(words.schema_texts()) == []


def test_no_help_text_has_a_word_of_the_list() -> None:
    assert words.violations(words.help_texts(app)) == []


@pytest.mark.parametrize("package", [*source.members(), "deploy"])
def test_no_message_has_a_word_of_the_list(package: str) -> None:
    assert words.violations(words.messages(package)) == []


def test_no_dashboard_has_a_word_of_the_list() -> None:
    texts = [
        Text(f"{shown(path)}: {panel['title']}", f"{panel['title']}. {panel.get('description', '')}")
        for path in sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
        for panel in json.loads(path.read_text("utf-8"))["panels"]
    ]
    assert len(texts) > 10
    assert words.violations(iter(texts)) == []


def test_words_are_found_in_every_kind_of_text() -> None:
    (found,) = words.violations(iter([Text("page", "A task.\nNobody looks. `nobody` is a user.\n")]))
    assert found == "page:2: 'Nobody': write no user, no service, nothing"
    assert len(words.INSTEAD) > 60
