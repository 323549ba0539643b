"""What `verify-log` prints: a table of the invariants, the findings beneath, and the same as JSON."""

import pytest

from trackside.cli.commands.verify import SHOWN, as_object, show
from trackside.domain.findings import Finding
from trackside.verify.invariants import INVARIANTS, NEEDS_POSTGRES
from trackside.verify.log import VerificationReport

MESSAGE = "device w1/cpu-0 has task b while it has a"


def verdict(findings: int) -> VerificationReport:
    found = [
        Finding(
            "INV-4", "trackside.events", 3, 17 + at, "digits-1", "device w1/cpu-0 has task b while it has a"
        )
        for at in range(findings)
    ]
    return VerificationReport(found, {"INV-4": 5}, {**NEEDS_POSTGRES}, events=100, streams=2)


def test_the_table_says_what_was_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    show(verdict(0))
    said = capsys.readouterr().out
    assert all(name in said for name in INVARIANTS)
    assert "5 uses" in said
    assert "needs --postgres" in said
    assert said.endswith("nothing found: 100 events of 2 streams\n")
    assert max(len(line) for line in said.splitlines()) <= 100


def test_findings_are_named_with_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    show(verdict(1))
    said = capsys.readouterr().out
    assert "INV-4 trackside.events-3@17 digits-1: device w1/cpu-0 has task b while it has a\n" in said
    assert said.endswith("1 finding: 100 events of 2 streams\n")


def test_records_that_are_not_ours_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    found = verdict(0)
    found.undecodable = ["trackside.events-3@17"]
    show(found)
    said = capsys.readouterr().out
    assert said.endswith(" of 2 streams; no service can read 1 record at trackside.events-3@17\n")
    found.undecodable.append("trackside.events-3@20")
    show(found)
    assert "can read 2 records, the first at trackside.events-3@17\n" in capsys.readouterr().out
    assert as_object(found)["passed_over"] == found.undecodable


def test_of_very_many_findings_only_the_first_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show(verdict(SHOWN + 7))
    assert "and 7 more; --json has all" in capsys.readouterr().out


def test_programs_get_what_was_not_looked_at_as_null() -> None:
    whole = as_object(verdict(1))
    by_name = {row["invariant"]: row for row in whole["invariants"]}
    assert (whole["holds"], whole["events"], len(whole["findings"])) == (False, 100, 1)
    assert [by_name[name]["holds"] for name in ("INV-1", "INV-4", "INV-15")] == [True, False, None]
    assert by_name["INV-15"]["skipped"] == "needs --postgres"


def test_what_is_open_is_no_violation(capsys: pytest.CaptureFixture[str]) -> None:
    report = verdict(0)
    report.open = [Finding("INV-1", "trackside.events", 3, at, "digits-1", "no answer") for at in range(7)]
    show(report)
    said = capsys.readouterr().out
    assert "holds, 7 open" in said
    assert "open so far: INV-1 trackside.events-3@0 digits-1: no answer\n" in said
    assert "and 2 more are open; --json has all\n" in said
    assert said.endswith("nothing found: 100 events of 2 streams\n")
    whole = as_object(report)
    assert (whole["holds"], len(whole["open"])) == (True, 7)
    assert {row["invariant"]: row["open"] for row in whole["invariants"] if row["open"]} == {"INV-1": 7}


def test_uses_that_could_not_be_compared_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    report = verdict(0)
    report.uncompared_uses = 12
    show(report)
    assert "INV-4: 12 uses could not be compared with all others" in capsys.readouterr().out
    assert as_object(report)["uncompared_uses"] == 12
