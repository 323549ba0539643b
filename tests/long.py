"""Runs what `make test` leaves out, in pieces: `make long`, `make long ONLY=worker`, or a share of it in CI.

A piece is a run of pytest over the tests marked `long` or `thorough` in some folders, or a program. Each has
a limit of its own, several times what it takes quietly. A piece that fails or comes to its limit fails the
run; what there was no time for does not.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from trackside.eventlog.clock import now_ms

MINUTE_S = 60.0
SHARE_MINUTES = 12.0
LATEST_S = 50 * MINUTE_S
"""After so many s of a run in CI no piece is begun."""
HOURS_A_SHARE = 3
MARKED = "long or thorough"


@dataclass(frozen=True)
class Piece:
    """Tests of folders or files, or a program; `minutes` are those of a quiet machine (`tests.times`)."""

    name: str
    minutes: float
    paths: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    workers: int = 2
    whole_files: bool = True
    only: str = ""
    """What the names of its tests have in them, where others of its files are in other pieces."""

    @property
    def command(self) -> list[str]:
        """The command line that runs it."""
        if self.program:
            return [sys.executable, *self.program]
        spread = ["-n", str(self.workers), "--dist", "loadfile" if self.whole_files else "worksteal"]
        only = ["-k", self.only] if self.only else []
        return [sys.executable, "-m", "pytest", "-q", *spread, "-m", MARKED, *only, *self.paths]

    @property
    def limit_s(self) -> float:
        """After how many seconds it is ended: a busy or slow machine takes several times as long."""
        return (5 * self.minutes + 5) * MINUTE_S


def _bench(name: str, minutes: float, *parts: str) -> Piece:
    only = [word for part in parts for word in ("--only", part)]
    return Piece(f"bench-{name}", minutes, program=("-m", "bench", "--smallest", *only))


def _unit(name: str, minutes: float, *folders: str) -> Piece:
    paths = tuple(f"tests/unit/{folder}" for folder in folders)
    return Piece(f"unit-{name}", minutes, paths, whole_files=False)


def _integration(name: str, minutes: float, *folders: str) -> Piece:
    paths = tuple(f"tests/integration/{folder}" for folder in folders)
    return Piece(f"integration-{name}", minutes, paths, workers=4)


def _e2e(name: str, minutes: float, *modules: str) -> Piece:
    return Piece(f"e2e-{name}", minutes, tuple(f"tests/e2e/test_{module}.py" for module in modules))


def _chaos(name: str, minutes: float, *paths: str) -> Piece:
    return Piece(f"chaos-{name}", minutes, tuple(f"tests/chaos/{path}" for path in paths), workers=1)


ALERTS = {"inputs": 5, "decisions": 5, "connections": 4, "servers": 3.5, "processes": 5}
"""The minutes of the faults of each word in `tests.chaos.alerts.cases`."""
PIECES: tuple[Piece, ...] = (
    _integration("rows", 2, "projections", "summary_indexer", "summaries", "boards", "metrics"),
    _integration("replay", 1.5, "replay", "verify"),
    _integration("worker", 1.5, "worker"),
    _integration("services", 2, "dispatcher", "scheduler", "rights", "incremental", "artifacts"),
    _integration("commands", 2.5, "cli", "console", "sdk", "publish", "telemetry"),
    _integration("embedded", 3, "embedded", "eventlog"),
    Piece("growth-worker", 2.5, ("tests/integration/growth/test_worker.py",)),
    Piece("growth-imports", 4, ("tests/integration/growth/test_imports.py",), whole_files=False),
    Piece("growth-services", 5, ("tests/integration/growth/test_services.py",), whole_files=False),
    Piece("forged-records", 1, ("tests/e2e/test_forged_records.py",), workers=1),
    _e2e("clones", 3.5, "clone", "wheel", "demo"),
    _e2e("upgrades", 4, "rolling_upgrade", "restarted_stack", "stack_with_readers", "late_index"),
    _e2e("secure", 2.5, "secrets_stay_on_the_host", "secure_stack"),
    _e2e(
        "stacks",
        3,
        "example_aggregate",
        "forgotten_streams",
        "search_in_own_folder",
        "tasks_in_groups",
        "tasks_page",
    ),
    Piece("browser", 3, ("tests/browser",), workers=1),
    _chaos("search", 4.5, "test_chaos.py"),
    _unit("decisions", 3, "aggregates", "domain", "contracts", "scheduler", "verify"),
    _unit("dispatcher", 3, "dispatcher", "simulation"),
    _unit(
        "rest",
        1.5,
        "artifacts",
        "cli",
        "compat",
        "console",
        "docs",
        "embedded",
        "eventlog",
        "incremental",
        "kubernetes",
        "projections",
        "replay",
        "sdk",
        "signing",
        "soak",
        "summaries",
        "summary_indexer",
        "telemetry",
        "whatif",
        "worker",
    ),
    Piece("simulation", 0.5, ("tests/simulation",), whole_files=False),
    Piece("contract", 0.5, ("tests/contract",)),
    _chaos("kills", 3, "kills/test_kill_points.py"),
    _chaos("training", 3, "kills/test_training_under_kills.py"),
    _chaos("runs", 3.5, "test_runs_under_kills.py", "test_summaries_under_faults.py"),
    _chaos("rounds", 1.5, "rounds"),
    _chaos("disk", 4, "test_full_disk.py"),
    _chaos("soak", 4, "test_soak.py"),
    _chaos("starved", 4.5, "test_starved_machine.py"),
    _chaos("adoption", 5, "test_adoption_on_a_busy_machine.py"),
    _chaos("alerts", 5, "alerts/test_alerts.py"),
    *(
        Piece(f"alerts-{word}", minutes, ("tests/chaos/alerts/test_faults.py",), workers=1, only=f"{word}-")
        for word, minutes in ALERTS.items()
    ),
    _bench("trials", 3, "trials", "slots", "batch", "answers", "idle", "peers"),
    _bench("log", 3, "rebuild", "points", "replay", "simulation", "service-memory", "recovery", "resumption"),
    _bench("services", 4, "restarts", "console", "pipelines", "rounds"),
)


def shares(pieces: Sequence[Piece] = PIECES) -> list[list[Piece]]:
    """Returns the pieces in groups of about `SHARE_MINUTES` minutes, in their order."""
    found: list[list[Piece]] = [[]]
    for piece in pieces:
        if found[-1] and sum(each.minutes for each in found[-1]) + piece.minutes > SHARE_MINUTES:
            found.append([])
        found[-1].append(piece)
    return found


def share_of(hours: float, count: int) -> int:
    """Returns which of `count` shares is due, from 0, by the hours since 1970."""
    return int(hours / HOURS_A_SHARE) % count


def chosen(only: str) -> list[Piece]:
    """Returns the pieces with one of these words, separated by commas or spaces, in their names or paths."""
    words = only.replace(",", " ").split()
    found = [each for each in PIECES if any(word in " ".join((each.name, *each.paths)) for word in words)]
    if words and not found:
        known = ", ".join(piece.name for piece in PIECES)
        raise SystemExit(f"no piece of make long has {only!r} in its name or its folders; there are: {known}")
    return found or list(PIECES)


def passes(piece: Piece) -> bool:
    """Runs a piece to its end or its limit; returns whether it passed."""
    environment = {**os.environ, **({"PYTHONPATH": "deploy"} if piece.program else {})}
    running = subprocess.Popen(
        piece.command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        # 5: none of its tests exists here
        return running.wait(piece.limit_s) in (0, 5)
    except subprocess.TimeoutExpired:
        say(f"{piece.name} is ended after {piece.limit_s / MINUTE_S:.0f} min")
        return False
    finally:
        if running.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # what it started ends by the leash of its run
            running.wait()


def run(pieces: Sequence[Piece], may_begin: Callable[[], bool], title: str) -> int:
    """Runs pieces one after another while they may begin, and says which; returns 1 if one failed, else 0."""
    began_s = time.monotonic()
    ran: list[str] = []
    failed: list[str] = []
    for number, piece in enumerate(pieces, 1):
        if not may_begin():
            break
        say(f"{number}/{len(pieces)} {piece.name}, about {piece.minutes:g} min quietly")
        piece_began_s = time.monotonic()
        passed = passes(piece)
        ran.append(f"{piece.name} {(time.monotonic() - piece_began_s) / MINUTE_S:.1f} min")
        if not passed:
            failed.append(piece.name)
            say(f"{piece.name} failed; `make long ONLY={piece.name}` repeats it")
    left_out = [piece.name for piece in pieces[len(ran) :]]
    if left_out:
        say("left out for lack of time: " + ", ".join(left_out))
    if not ran:
        say("nothing ran")
        return 0
    say("ran " + ", ".join(ran))
    minutes = (time.monotonic() - began_s) / MINUTE_S
    outcome = f"failed: {', '.join(failed)}" if failed else "all passed"
    say(f"{title}{len(ran)} of {len(pieces)} pieces in {minutes:.0f} min; {outcome}")
    return 1 if failed else 0


def say(words: str) -> None:
    """Prints a line of this program, before anything that follows."""
    print(f"long: {words}", flush=True)  # noqa: T201 - a program of the command line


def main(argv: Sequence[str] | None = None) -> int:
    """Reads the command line and runs the pieces."""
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    parser.add_argument("--only", default="", help="words, one of which a piece has in its name or folders")
    parser.add_argument("--list", action="store_true", help="print the pieces with their shares")
    parser.add_argument(
        "--share-after",
        type=float,
        metavar="S",
        help="run the share of this hour, or of LONG_SHARE, in a run that began S seconds ago",
    )
    options = parser.parse_args(argv)
    if options.list:
        for number, pieces in enumerate(shares(), 1):
            for piece in pieces:
                print(f"{number} {piece.name:32} {piece.minutes:4g} min")  # noqa: T201
        return 0
    if options.share_after is None:
        return run(chosen(options.only), lambda: True, "")
    groups = shares()
    wanted = os.environ.get("LONG_SHARE", "")
    if wanted and not (wanted.isdigit() and 1 <= int(wanted) <= len(groups)):
        raise SystemExit(f"LONG_SHARE is {wanted!r}; expected a number from 1 to {len(groups)}")
    number = int(wanted) - 1 if wanted else share_of(now_ms() / 3_600_000, len(groups))
    ends_s = time.monotonic() - options.share_after + LATEST_S
    title = f"share {number + 1} of {len(groups)} (LONG_SHARE={number + 1} repeats it): "
    return run(groups[number], lambda: time.monotonic() < ends_s, title)


if __name__ == "__main__":
    sys.exit(main())
