"""The programs of the test suite itself: pieces of the long run, times, and skipped promises."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.alerts.cases import CASES
from tests.long import ALERTS, PIECES, SHARE_MINUTES, Piece, chosen, main, run, share_of, shares
from tests.promises import may_be_skipped, promises, skipped_promises
from tests.times import Measured, SetUp, tables

TABLES = """
### Which test holds what

| promise | tests |
| --- | --- |
| Rebuilds | `tests/a/test_a.py::test_one`, `tests/a/test_b.py` (long) |
| Pages | `tests/a/test_pages.py::test_each` |

### What CI may skip

| test | reason |
| --- | --- |
| `tests/a/test_pages.py` | no browser |
"""


def test_all_pieces_are_in_a_share_of_which_none_is_too_long() -> None:
    groups = shares()
    assert [piece for group in groups for piece in group] == list(PIECES)
    assert all(sum(piece.minutes for piece in group) <= SHARE_MINUTES for group in groups)
    assert all(piece.minutes <= 5 for piece in PIECES)
    assert sum(piece.minutes for piece in PIECES) <= 120
    assert {share_of(hours, len(groups)) for hours in range(0, 3 * len(groups), 3)} == set(range(len(groups)))
    assert ALERTS.keys() == CASES.keys(), "else faults of alerts would be in no piece"


def test_pieces_are_chosen_by_words_of_their_names_and_folders() -> None:
    assert [piece.name for piece in chosen("forged")] == ["forged-records"]
    assert {"unit-rest", "integration-worker"} <= {piece.name for piece in chosen("worker")}
    assert chosen("") == list(PIECES)
    with pytest.raises(SystemExit, match=r"no piece of make long has 'absent'.*unit-rest"):
        chosen("absent")


def test_a_share_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONG_SHARE", "99")
    with pytest.raises(SystemExit, match=f"LONG_SHARE is '99'; expected a number from 1 to {len(shares())}"):
        main(["--share-after", "0"])


def test_a_run_says_which_pieces_failed_and_which_had_no_time(capfd: pytest.CaptureFixture[str]) -> None:
    good, bad = (Piece(name, 1, program=("-c", code)) for name, code in (("good", "1"), ("bad", "1 / 0")))
    assert run([good, bad], lambda: True, "") == 1
    told = capfd.readouterr().out.splitlines()
    assert "long: bad failed; `make long ONLY=bad` repeats it" in told
    assert told[-1] == "long: 2 of 2 pieces in 0 min; failed: bad"

    turns = iter([True, False])
    assert run([good, bad], lambda: next(turns), "") == 0
    assert "long: left out for lack of time: bad" in capfd.readouterr().out
    assert run([good], lambda: False, "") == 0
    assert capfd.readouterr().out.splitlines()[-1] == "long: nothing ran"


def test_a_skipped_promise_is_told_with_its_test() -> None:
    assert [promise.words for promise in promises(TABLES)] == ["Rebuilds", "Pages"]
    assert [holder.is_long for holder in promises(TABLES)[0].holders] == [False, True]
    found = skipped_promises(TABLES, ["tests/a/test_a.py::test_one[1]", "tests/a/test_pages.py"])
    assert {promise.words: test for promise, test in found} == {
        "Rebuilds": "tests/a/test_a.py::test_one",
        "Pages": "tests/a/test_pages.py::test_each",
    }
    assert may_be_skipped(TABLES) == {"tests/a/test_pages.py": "no browser"}


def test_a_run_that_must_hold_all_promises_fails_if_one_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.promises import Skips\n\n\ndef pytest_configure(config):\n"
        "    import tests.promises, pathlib\n    tests.promises.ROOT = pathlib.Path(__file__).parent\n"
        "    config.pluginmanager.register(Skips(required=True))\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "CONTRIBUTING.md").write_text(TABLES)
    (tmp_path / "tests" / "a").mkdir(parents=True)
    for name in ("test_a.py::test_one", "test_pages.py::test_each"):
        file, test = name.split("::")
        (tmp_path / "tests" / "a" / file).write_text(
            f"import pytest\n\n\n@pytest.mark.skip(reason='none here')\ndef {test}():\n    pass\n"
        )
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=tmp_path,
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "NOT HELD: Rebuilds; tests/a/test_a.py::test_one was skipped" in ended.stdout
    assert "not held here: Pages; tests/a/test_pages.py::test_each was skipped" in ended.stdout


def test_times_are_summed_by_folder_file_test_and_fixture() -> None:
    one = Measured(
        "tests/a/test_a.py::test_one", 1.0, 2.0, 0.5, 1.5, fixtures=[SetUp("stack", "session", 0.9)]
    )
    two = Measured("tests/a/test_b.py::test_two", 0.0, 1.0, 0.0, 4.0, left={"worker": 2})
    lines = list(tables([one, two]))
    assert any(line.split() == ["tests/a", "2", "4.5", "1.0", "2.0", "5.5"] for line in lines)
    assert any(line.split() == ["stack", "session", "1", "0.9"] for line in lines)
    assert lines[-1].endswith("2 worker")
