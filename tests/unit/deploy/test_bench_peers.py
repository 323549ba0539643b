import sys

import pytest
from bench.peers.environment import PeerMissingError
from bench.peers.peer_process import run

CHILD = "import time\nwhile time.process_time() < 0.4: pass\nprint(flush=True)\ninput()"
PARENT = f"""
import json, subprocess, sys, threading
def report(**fields):
    print(json.dumps(fields), flush=True)
    sys.stdin.readline()
def start():
    child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    report(at="ended", trials=10, seconds=2.0)
    child.communicate(b"\\n")
report(at="began")
thread = threading.Thread(target=start)
thread.start()
thread.join()
"""


async def test_the_processor_time_of_a_child_that_another_thread_started_is_counted() -> None:
    found = await run([sys.executable, "-c", PARENT], {}, lambda: 0.0)
    assert found.rate == 5.0
    assert 30 <= found.cpu_ms < 400


async def test_a_program_that_fails_is_reported_with_the_end_of_its_output() -> None:
    program = "import sys; sys.exit('no such package')"
    with pytest.raises(PeerMissingError, match="ended with 1: no such package"):
        await run([sys.executable, "-c", program], {}, lambda: 0.0)
