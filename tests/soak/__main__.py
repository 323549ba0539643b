"""`make soak`: runs it, prints a line a minute, writes the report and a line of the ledger."""

import asyncio
import secrets
import signal
import sys
from datetime import UTC, datetime

from tests.soak.checks import Check, CheckResult, has_failed
from tests.soak.judgement import experiment_checks, measure_checks, recovery_check
from tests.soak.options import SoakOptions, read_options
from tests.soak.records import LedgerLine, RunRecord, add_to_ledger, read_ledger
from tests.soak.report import write_report
from tests.soak.run import Soak
from trackside.eventlog.clock import now_ms


def main() -> int:
    """Runs a soak; returns 1 if it has failed."""
    options = read_options(sys.argv[1:], secrets.randbelow(2**31))
    record = new_record(options)
    say(f"seed {options.seed}; results are in {record.folder}")
    asyncio.run(_run(options, record))
    verdict = conclude(options, record)
    say(f"{verdict}: {record.folder / 'report.html'}")
    return 0 if verdict == "passed" else 1


def say(line: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def new_record(options: SoakOptions) -> RunRecord:
    """Makes the folder of a run."""
    begin = datetime.fromtimestamp(now_ms() / 1000, UTC).isoformat("T", "seconds")
    folder = options.folder / f"{begin.replace(':', '').partition('+')[0]}-{options.seed}"
    folder.mkdir(parents=True)
    return RunRecord(folder, options.seed, begin)


async def _run(options: SoakOptions, record: RunRecord) -> None:
    """Runs a soak, which the first signal ends early, with its checks, and the second one at once."""
    soak = Soak(options, record, say)
    running = asyncio.create_task(soak.run())
    signals = 0

    def on_signal() -> None:
        nonlocal signals
        signals += 1
        if signals == 1:
            say("it ends early; a second signal ends it at once")
            record.notes.append(f"ended early, after {soak.elapsed_s() / 60:.1f} min")
            soak.end()
        else:
            running.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    try:
        await running
    except asyncio.CancelledError:
        record.notes.append("ended at once: what has to hold at the end was not checked")
    except Exception as error:  # noqa: BLE001 - what there was is reported
        soak.find("soak", f"{type(error).__name__}: {error}")
    record.length_s = record.length_s or soak.elapsed_s()


def conclude(options: SoakOptions, record: RunRecord) -> str:
    """Judges a run, adds it to the ledger and writes its report; returns the verdict."""
    end = Check("checks of the end", CheckResult.PASSED, "made", "made")
    if not record.end_checked:
        end = end._replace(result=CheckResult.NOT_JUDGED, value="not made")
    record.checks = [
        *experiment_checks(record),
        end,
        recovery_check(record),
        *measure_checks(record.samples()),
    ]
    verdict = "failed" if has_failed(record.checks) else "passed"
    add_to_ledger(
        options.ledger,
        LedgerLine(
            begin=record.begin,
            hours=round(record.length_s / 3_600, 3),
            seed=record.seed,
            faults=len(record.faults),
            experiments=len(record.experiments),
            events=record.events,
            findings=len(record.findings),
            verdict=verdict,
        ),
    )
    write_report(record, read_ledger(options.ledger))
    return verdict


if __name__ == "__main__":
    sys.exit(main())
