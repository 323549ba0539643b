from bench.releases import figures, table, without_options
from rich.console import Console

TRIALS, IDLE, NEW = ("P1 trials", "/s"), ("idle", "ms/s"), ("R6 restarts", "s")


def printed(*rounds: tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]) -> list[list[str]]:
    console = Console(width=100, force_terminal=False)
    with console.capture() as capture:
        console.print(table("1234abcd", rounds))
    return [line.split() for line in capture.get().splitlines()]


def test_each_row_has_the_median_ratio_of_its_rounds_and_their_spread() -> None:
    [head, trials, *_] = printed(
        ({TRIALS: 30.0}, {TRIALS: 20.0}), ({TRIALS: 20.0}, {TRIALS: 20.0}), ({TRIALS: 44.0}, {TRIALS: 40.0})
    )
    assert head == ["measure", "1234abcd", "this", "ratio", "spread"]
    assert trials == ["P1", "trials", "20.0", "/s", "30.0", "/s", "1.10", "1.00", "to", "1.50"]


def test_a_row_that_one_release_lacks_or_that_is_zero_there_has_no_ratio() -> None:
    rows = printed(({IDLE: 3.0, NEW: 2.0}, {IDLE: 0.0}))
    assert rows[1:] == [
        ["idle", "0.00", "ms/s", "3.00", "ms/s", "-", "-"],
        ["R6", "restarts", "-", "2.00", "s", "-", "-"],
    ]


def test_the_processor_time_of_each_process_is_a_row_and_so_is_their_sum() -> None:
    found = figures(
        {
            "figures": [{"number": "-", "what": "idle", "unit": "ms/s", "value": 4.0}],
            "details": {"warm_cpu_ms": {"kafka": 2.0, "worker": 1.5}, "cpu_ms": {}},
        }
    )
    assert found == {
        IDLE: 4.0,
        ("processor time of a warm trial: kafka", "ms"): 2.0,
        ("processor time of a warm trial: worker", "ms"): 1.5,
        ("processor time of a warm trial", "ms"): 3.5,
    }


def test_both_releases_get_the_other_options_of_the_command_line() -> None:
    argv = ["--against", "HEAD~3", "--only", "slots", "--turns=2", "--trials", "50"]
    assert without_options(argv, ("--against", "--turns")) == ["--only", "slots", "--trials", "50"]
