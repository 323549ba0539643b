"""The page of selected experiments, and filters that stay in the addresses of the list."""

import json

import pytest
import pytest_asyncio

from tests.integration.console.given import Browser
from tests.integration.projections.given_trials import write_search
from tests.integration.projections.harness import query
from tests.unit.domain.given import spec
from trackside.console.web.page import BadQuery
from trackside.console.web.users import Role, User

VIEWER = User("vera", Role.VIEWER)
COPIES = """
INSERT INTO searches SELECT (jsonb_populate_record(
    first, jsonb_build_object('search_id', 's' || lpad(n::text, 2, '0'))
)).*
FROM searches AS first, generate_series(1, 59) AS n
"""
HOSTILE = "<script>alert(1)</script>"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(module_tables: str) -> Browser:
    """Returns a browser over 60 searches with tags: the second has ended, and the third is archived."""
    await write_search(module_tables, "s00", [])
    await query(module_tables, COPIES)
    dumped = json.dumps(spec().model_dump(mode="json"))
    await query(module_tables, "UPDATE searches SET spec = $1", dumped)
    ended = "UPDATE searches SET status = 'DONE', ended_ms = 9 WHERE search_id = 's01'"
    await query(module_tables, ended)
    await query(
        module_tables,
        """INSERT INTO stream_labels (stream_id, kind, tags, note, archived, changed_ms)
        SELECT search_id, 'search', ARRAY['red', 'a&b'], '', search_id = 's02', 1 FROM searches""",
    )
    return Browser(module_tables)


async def test_each_selected_experiment_has_a_form_for_what_can_be_done_with_it_and_a_viewer_gets_none(
    browser: Browser,
) -> None:
    page = await browser.page("/selected?id=s00&id=s01&id=s02&id=s00")
    assert "3 selected" in page
    assert page.count('data-of="stop"') == 2 and page.count('data-of="archive"') == 2
    assert 'hx-post="/commands/s00"' in page and page.count('name="command_id" value=""') == 4
    assert 'data-confirm-title="Stop 2 experiments?"' in page
    assert 'data-confirm-title="Archive 2 experiments?"' in page
    assert 'id="answer-s00"' in page and 'id="answer-s01"' in page
    page = await browser.of(VIEWER).page("/selected?id=s00")
    assert '<form class="command"' not in page and "data-send-all" not in page
    assert "log in as an operator" in page
    assert "data-selected-href" not in await browser.of(VIEWER).page("/experiments")


async def test_nothing_selected_too_much_and_unknown_ids_are_said(browser: Browser) -> None:
    assert "Nothing is selected." in await browser.page("/selected")
    page = await browser.page("/selected?id=%3Cscript%3Ealert(1)%3C/script%3E")
    assert "there is no experiment of this id" in page and HOSTILE not in page
    with pytest.raises(BadQuery, match="51 ids; expected at most 50"):
        await browser.page("/selected?" + "&".join(f"id={number}" for number in range(51)))


async def test_all_filters_of_the_list_are_in_the_addresses_of_its_other_pages(browser: Browser) -> None:
    query = "kind=search&status=RUNNING&tag=red&tag=a%26b&archived=true"
    page = await browser.page(f"/experiments?{query}")
    assert f'rel="next" href="?{query.replace("&", "&amp;")}&amp;offset=50"' in page
    assert f'href="?{query.replace("&", "&amp;")}&amp;sort=id&amp;order=desc"' in page
    assert 'name="tag" type="text" value="red"' in page and 'name="tag" value="a&amp;b" checked' in page
    assert 'data-compare="s02"' not in await browser.page("/experiments?tag=red&text=s02")
    assert 'data-compare="s02"' in await browser.page("/experiments?tag=red&text=s02&archived=true")
