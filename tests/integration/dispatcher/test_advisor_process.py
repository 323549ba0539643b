"""Real advisor processes: asked off the loop, killed, restarted, and none the wiser."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.dispatcher.users_package import advisor
from trackside.dispatcher.advice.advisor_process import (
    AdviceFailed,
    AdvisorClosed,
    AdvisorDied,
    AdvisorOp,
    AdvisorProcess,
    AdvisorTimeout,
)
from trackside.dispatcher.advice.tuner_client import TunerClient
from trackside.dispatcher.advice.tuner_history import EndedItem, HistoryItem
from trackside.dispatcher.advisor.advisor import make_tuner

SPACE = {
    "c": {"type": "choice", "values": ["a", "b", "c"]},
    "x": {"type": "uniform", "low": -1.0, "high": 1.0},
}
SETUP = {"space": SPACE, "tuner": {"name": "tpe", "options": {}}, "seed": 4, "direction": "maximize"}
# Answers every line with what it was sent; but "hang" never answers, "die" ends, "noise" babbles.
ECHO = """
import json, sys, time
print(json.dumps({"ready": 1}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    last = request["ops"][-1]["op"]
    if last == "hang":
        time.sleep(600)
    if last == "die":
        sys.exit(3)
    if last == "noise":
        print("not json", flush=True)
    print(json.dumps({"id": request["id"], "result": request["ops"]}), flush=True)
"""
process = advisor("tuner")
echo = advisor("echo", [sys.executable, "-c", ECHO])


def ended(number: int, value: float) -> EndedItem:
    return ("ended", number, "complete", value, ())


def op(name: str) -> list[AdvisorOp]:
    return [{"op": name}]


def expected(trials: int) -> list[dict[str, Any] | None]:
    memory = make_tuner(SPACE, SETUP["tuner"], 4, "maximize")  # type: ignore[arg-type]
    found = []
    for number in range(trials):
        found.append(memory.ask(number))
        memory.tell(number, "complete", (found[-1] or {})["x"])
    return found


async def search(tuner: TunerClient, search_id: str, trials: int, kill_every: int = 0) -> list[Any]:
    history: list[HistoryItem] = []
    found = []
    for number in range(trials):
        if kill_every and number % kill_every == 0 and tuner.process.pid:
            pid = tuner.process.pid
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(AdvisorDied):
                await tuner.suggest(search_id, SETUP, history, number)
        parameters = await tuner.suggest(search_id, SETUP, history, number)
        assert parameters is not None
        found.append(parameters)
        history += [("suggested", number, parameters), ended(number, parameters["x"])]
    return found


async def test_an_advisor_killed_again_and_again_changes_no_suggestion(process: AdvisorProcess) -> None:
    assert await search(TunerClient(process), "s", 25) == expected(25)
    generation = process.generation
    assert await search(TunerClient(process), "killed", 25, kill_every=8) == expected(25)
    assert process.generation == generation + 4


async def test_searches_that_share_a_process_do_not_see_each_other(process: AdvisorProcess) -> None:
    tuner = TunerClient(process)
    found = await asyncio.gather(*(search(tuner, f"s{n}", 15) for n in range(3)))
    assert found == [expected(15)] * 3


async def test_an_ask_sees_only_what_had_happened_when_it_was_made(process: AdvisorProcess) -> None:
    tuner = TunerClient(process)
    setup = {**SETUP, "tuner": {"name": "tpe", "options": {"n_startup_trials": 1}}}
    history: list[HistoryItem] = [("suggested", 0, {"c": "a", "x": 0.5})]
    early = tuner.suggest("s", setup, history, 1)
    history.append(ended(0, 0.5))
    alone = make_tuner(SPACE, setup["tuner"], 4, "maximize")  # type: ignore[arg-type]
    alone.restore(0, {"c": "a", "x": 0.5})
    assert await early == alone.ask(1)


async def test_an_answer_that_was_never_used_is_forgotten(process: AdvisorProcess) -> None:
    tuner = TunerClient(process)
    history: list[HistoryItem] = []
    first = await tuner.suggest("s", SETUP, history, 0)
    assert await tuner.suggest("s", SETUP, history, 0) == first
    history.append(("suggested", 0, {"c": "b", "x": 0.125}))
    history.append(ended(0, 0.0))
    assert await tuner.suggest("s", SETUP, history, 1) is not None


async def test_each_item_of_a_history_is_sent_once(echo: AdvisorProcess) -> None:
    tuner = TunerClient(echo)
    history: list[HistoryItem] = []
    sent = []
    for number in range(4):
        ops: Any = await tuner.suggest("s", SETUP, history, number)
        sent.append([o["op"] for o in ops])
        history += [("suggested", number, {}), ended(number, 1.0)]
    assert sent == [["open", "ask"], *[["restore", "tell", "ask"]] * 3]


async def test_a_long_history_is_recalled_in_lines_of_bounded_size(process: AdvisorProcess) -> None:
    setup = {**SETUP, "tuner": {"name": "random", "options": {}}}
    history: list[HistoryItem] = []
    for number in range(2_500):
        history += [("suggested", number, {"c": "a", "x": 0.5}), ended(number, 0.5)]
    assert await TunerClient(process).suggest("s", setup, history, 2_500) is not None


async def test_a_search_forgotten_while_it_is_asked_is_dropped_after_the_answer(echo: AdvisorProcess) -> None:
    tuner = TunerClient(echo)
    await echo.start()
    asked = asyncio.create_task(tuner.suggest("s", SETUP, [], 0))
    forgotten = asyncio.create_task(tuner.forget("s"))
    await asyncio.gather(asked, forgotten)
    history: list[HistoryItem] = [("suggested", 0, {})]
    sent: Any = await tuner.suggest("s", SETUP, history, 1)
    assert [o["op"] for o in sent] == ["open", "restore", "ask"]


async def test_an_advisor_that_hangs_is_killed_and_the_next_request_gets_a_fresh_one(
    echo: AdvisorProcess,
) -> None:
    await echo.start()
    before = echo.pid
    echo.timeout_s = 0.2
    with pytest.raises(AdvisorTimeout, match=r"advisor echo: no answer about search s in 0\.2 s"):
        await echo.request("s", op("hang"))
    echo.timeout_s = 60
    assert echo.pid is None
    assert await echo.request("s", op("fine")) == op("fine")
    assert echo.pid not in (None, before)
    assert echo.generation == 2


@pytest.mark.parametrize(
    ("last", "said"), [("die", "ended while it was asked"), ("noise", "not a JSON line")]
)
async def test_an_advisor_that_dies_or_babbles_fails_one_request_only(
    echo: AdvisorProcess, last: str, said: str
) -> None:
    failing = asyncio.create_task(echo.request("s", op(last)))
    fine = asyncio.create_task(echo.request("t", op("fine")))
    with pytest.raises(AdvisorDied, match=said):
        await failing
    assert await fine == op("fine")


async def test_a_cancelled_request_leaves_no_answer_for_the_next_one(echo: AdvisorProcess) -> None:
    await echo.start()
    asked = asyncio.Event()

    def hang(_generation: int) -> list[AdvisorOp]:
        asked.set()
        return op("hang")

    task = asyncio.create_task(echo.request("s", hang))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await echo.request("s", op("fine")) == op("fine")
    assert echo.backlog == 0


async def test_the_backlog_counts_what_waits_and_answers_keep_their_order(echo: AdvisorProcess) -> None:
    await echo.start()
    order: list[int] = []

    async def one(number: int) -> None:
        await echo.request(f"s{number}", op("fine"))
        order.append(number)

    tasks = [asyncio.create_task(one(number)) for number in range(25)]
    most = 0
    while not all(task.done() for task in tasks):
        await asyncio.wait([task for task in tasks if not task.done()], return_when="FIRST_COMPLETED")
        most = max(most, echo.backlog)
    assert order == list(range(25))
    assert most >= 20
    assert echo.backlog == 0


async def test_a_closed_advisor_refuses_and_leaves_no_process(echo: AdvisorProcess) -> None:
    await echo.start()
    pid = echo.pid
    assert pid is not None
    waiting = asyncio.create_task(echo.request("s", op("hang")))
    await asyncio.sleep(0)
    await echo.close()
    with pytest.raises(AdvisorClosed):
        await waiting
    with pytest.raises(AdvisorClosed):
        await echo.request("s", op("fine"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_program_that_cannot_start_is_named() -> None:
    with pytest.raises(AdvisorDied, match="can't start '/no/such/program'"):
        await AdvisorProcess("x", ["/no/such/program"]).start()
    with pytest.raises(AdvisorDied, match="ended"):
        await AdvisorProcess("x", [sys.executable, "-c", "pass"]).start()


async def test_bad_input_is_answered_with_its_reason_and_the_advisor_lives(process: AdvisorProcess) -> None:
    tuner = TunerClient(process)
    with pytest.raises(AdviceFailed, match="no tuner 'x' is installed"):
        await tuner.suggest("s", {**SETUP, "tuner": {"name": "x"}}, [], 0)
    with pytest.raises(AdviceFailed, match="trial 3 with 0 trials known"):
        await tuner.suggest("s", SETUP, [], 3)
    with pytest.raises(AdviceFailed, match="LookupError: search 'u' is not open"):
        await process.request("u", op("ask"))
    assert await tuner.suggest("s", SETUP, [], 0) == expected(1)[0]
    assert process.generation == 1


def test_lines_that_are_no_requests_are_answered_and_prints_stay_off_the_protocol() -> None:
    lines = b'nonsense\n[1]\n{"id": 5}\n\xff\n{"id": 6, "search": "s", "op": "close"}\n'
    program = [sys.executable, "-m", "trackside.dispatcher.advisor.advisor"]
    run = subprocess.run(program, input=lines, capture_output=True, check=True, timeout=60)
    ready, *replies = run.stdout.splitlines()
    assert b"ready" in ready
    assert [b'"error"' in reply for reply in replies] == [True, True, True, True, False]


def test_an_advisor_dies_with_its_parent_and_not_of_an_interrupt(tmp_path: Path) -> None:
    """A parent starts an advisor whose stdin stays open in this process, interrupts it, and is killed."""
    reading, writing = os.pipe()
    parent = f"""
import os, signal, subprocess, sys, time
child = subprocess.Popen(
    [sys.executable, "-m", "trackside.dispatcher.advisor.advisor", "--parent", str(os.getpid())],
    stdin={reading}, stdout=subprocess.PIPE)
child.stdout.readline()
child.send_signal(signal.SIGINT)
os.write({writing}, b'{{"id": 1, "search": "s", "op": "close"}}\\n')
print(child.pid, child.stdout.readline().decode(), flush=True)
time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdout=subprocess.PIPE, pass_fds=(reading, writing), text=True
    ) as process:
        assert process.stdout is not None
        pid, reply = process.stdout.readline().split(maxsplit=1)
        assert '"result":null' in reply
        watch = os.pidfd_open(int(pid))
        process.kill()
        assert select.select([watch], [], [], 60)[0], "the advisor outlived its parent"
    for descriptor in (watch, reading, writing):
        os.close(descriptor)
