import re
from datetime import UTC, datetime
from importlib import resources

from starlette.datastructures import QueryParams

from trackside.console.web.templates import Templates, changed_query, size, when

EVIL = "<img src=x onerror=alert(1)>"


def test_values_are_escaped() -> None:
    problem = {"code": EVIL, "path": EVIL, "message": EVIL}
    shown = Templates().page("answer.html", {"problems": [problem], "accepted": False, "waiting": ""})
    assert EVIL not in shown and "&lt;img" in shown


def test_no_template_has_a_script_a_style_or_a_value_that_is_not_escaped() -> None:
    for each in (resources.files("trackside.console") / "templates").iterdir():
        text = each.read_text("utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape false|Markup", text), each.name
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:", text), each.name


def test_times_sizes_and_queries_are_written_for_people_and_programs() -> None:
    shown = str(when(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)))
    assert 'datetime="2026-01-02T03:04:05+00:00"' in shown and "2026-01-02 03:04:05 UTC" in shown
    assert "-" in str(when(None))
    assert [size(None), size(512), size(1024**2 * 1.5)] == ["-", "512 B", "1.5 MiB"]
    assert changed_query(QueryParams("a=1&b=x+y"), b=None, c=3) == "?a=1&c=3"
    assert changed_query(QueryParams("tag=a&tag=b&page=1"), page=2) == "?tag=a&tag=b&page=2"
    assert changed_query(QueryParams(), text="&=") == "?text=%26%3D"
