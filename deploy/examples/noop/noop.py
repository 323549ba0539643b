"""A task that returns at once, or misbehaves as its parameters say.

Parameters, all optional: `seconds` to work (s); `alone`, a file that is there while it works, and may not be
there before; `value` to end with; `reports` to give before (a list); `fail` in stage "load", "train" or
"report"; `crash` with a signal's number or `exit` with a code; `ignore_sigterm`; `tell_pid` as the first
report; `print` a line; `wait_for_stop`, then end by itself; `show_environment` in the result.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from trackside.sdk import Task, trial


class Noop(Task):
    """Does as its parameters say."""

    def load(self) -> None:
        """Fails if it shall."""
        if trial.parameters().get("fail") == "load":
            raise RuntimeError("asked to fail in load")

    def train(self, device: str) -> dict[str, Any]:
        """Does as its parameters say and returns where it ran."""
        asked = trial.parameters()
        if asked.get("ignore_sigterm"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if "print" in asked:
            sys.stdout.write(f"{asked['print']}\n")
        for value in [*([os.getpid()] if asked.get("tell_pid") else []), *asked.get("reports", [])]:
            trial.report(value)
        misbehave(asked)
        if "value" in asked:
            trial.result(asked["value"])
        if asked.get("fail") == "report":
            return {"unreportable": object()}
        result = {"device": device, "pid": os.getpid(), "workdir": str(Path.cwd())}
        if asked.get("show_environment"):
            began_with = Path("/proc/self/environ").read_bytes().split(b"\0")
            result["environment"] = dict(os.environ)
            result["began_with"] = [variable.decode().partition("=")[0] for variable in began_with]
        return result


def misbehave(asked: dict[str, Any]) -> None:
    """Waits, raises, exits or crashes."""
    if asked.get("wait_for_stop"):
        while not trial.should_stop():
            time.sleep(0.01)
    if "alone" in asked:
        Path(asked["alone"]).touch(exist_ok=False)
    time.sleep(asked.get("seconds", 0))
    if "alone" in asked:
        Path(asked["alone"]).unlink()
    if asked.get("fail") == "train":
        raise ValueError("asked to fail in train")
    if "exit" in asked:
        os._exit(asked["exit"])
    if "crash" in asked:
        os.kill(os.getpid(), asked["crash"])
