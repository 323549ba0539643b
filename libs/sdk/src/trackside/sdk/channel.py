"""Where a trial's words go: to its worker over a socket, or to the screen when there is no worker.

Lines of JSON, each an object with one key that says what it is:
`{"status": 3}`, `{"reports": [[step, value, time_ms], ...]}`, `{"final": value}`,
`{"points": [[tag, step, time_ms, value], ...]}`, `{"asks": request}` for another trial's parameters,
`{"taken": request, "goes_on": true}` when it has them, `{"interrupted": {...}}` when memory ran out and
`{"ended": true}`. A value that isn't finite is `"nan"`, `"inf"` or `"-inf"`. A deciding value that was
said with others is `{"value": value or null, "others": {name: value}}`.
"""

import json
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from trackside.eventlog.clock import monotonic_s, now_ms

REPORT_EVERY_S = 0.05
"""Deciding reports are sent at most this often: 20 times a second, those in between together."""
POINTS_AT_ONCE = 200
Spoken = float | str | dict[str, Any]


class Channel(Protocol):
    """Takes what a trial says."""

    def parameters(self) -> dict[str, Any]:
        """Returns the parameters of this trial."""
        ...

    def report(self, step: int, value: float | None, others: Mapping[str, float]) -> None:
        """Takes a value that decides, and the others that were said with it; their names may say which."""
        ...

    def final(self, value: float | None, others: Mapping[str, float]) -> None:
        """Takes the value that the trial is judged by in the end, and those said with it."""
        ...

    def points(self, step: int, values: Mapping[str, float]) -> None:
        """Takes values to look at."""
        ...

    def should_stop(self) -> bool:
        """Returns whether the trial was asked to end."""
        ...

    def next_parameters(self) -> dict[str, Any] | None:
        """Waits for the parameters of another trial; None if there is none."""
        ...


class ScreenChannel:
    """Prints what a trial says; parameters are the JSON object in TRACKSIDE_PARAMETERS, or none."""

    def parameters(self) -> dict[str, Any]:
        """Returns the parameters of TRACKSIDE_PARAMETERS; raises ValueError if that is no JSON object."""
        given = os.environ.get("TRACKSIDE_PARAMETERS", "{}")
        found = json.loads(given)
        if not isinstance(found, dict):
            raise ValueError(f"TRACKSIDE_PARAMETERS: expected a JSON object, got {given[:80]!r}")
        return found

    def report(self, step: int, value: float | None, others: Mapping[str, float]) -> None:
        """Prints a value that decides."""
        sys.stdout.write(f"report step={step}{_shown(value, others)}\n")

    def final(self, value: float | None, others: Mapping[str, float]) -> None:
        """Prints the value at the end."""
        sys.stdout.write(f"result{_shown(value, others)}\n")

    def points(self, step: int, values: Mapping[str, float]) -> None:
        """Prints values to look at."""
        named = " ".join(f"{tag}={value:g}" for tag, value in values.items())
        sys.stdout.write(f"log step={step} {named}\n")

    def should_stop(self) -> bool:
        """Never: nobody is there to ask for it."""
        return False

    def next_parameters(self) -> None:
        """Returns none: there is no search."""


class StopRequest:
    """Returns whether SIGTERM came. Who asks once gets the grace time; who never asks ends at once."""

    def __init__(self) -> None:
        self._seen: threading.Event | None = None

    def seen(self) -> bool:
        """Returns it; the first call must come from the main thread."""
        if self._seen is None:
            seen = self._seen = threading.Event()
            signal.signal(signal.SIGTERM, lambda *_: seen.set())
        return self._seen.is_set()


class WorkerChannel:
    """Sends what a trial says to its worker, over a socket.

    A thread of its own sends what waits for company, so that a report is never held back for longer than
    REPORT_EVERY_S. `said` keeps the deciding values of the trial for the file that outlives the worker.
    `answer` waits for the answer to the next request for parameters; `requests` were answered so far.
    """

    def __init__(self, connection: socket.socket, parameters: Mapping[str, Any]) -> None:
        self._connection = connection
        self._parameters = dict(parameters)
        self._lock = threading.Condition()
        self._reports: list[tuple[int, Spoken, int]] = []
        self._points: list[tuple[str, int, int, float | str]] = []
        self._sent_at_s = -math.inf
        self._sender: threading.Thread | None = None
        self._closed = False
        self._stop = StopRequest()
        self._asking = threading.Lock()
        self.requests = 0
        self.answer: Callable[[int], dict[str, Any] | None] = _no_answer
        self.said: list[tuple[int, Spoken, int]] = []
        self.final_value: Spoken | None = None

    def parameters(self) -> dict[str, Any]:
        """Returns a copy of the parameters that the task was submitted with."""
        found: dict[str, Any] = json.loads(json.dumps(self._parameters))
        return found

    def report(self, step: int, value: float | None, others: Mapping[str, float]) -> None:
        """Sends a value that decides: at once, or with others if the last one was sent just now."""
        with self._lock:
            item = (step, spoken(value, others), now_ms())
            self.said.append(item)
            self._reports.append(item)
            self._send_or_wait()
        if others:
            self.points(step, others)

    def final(self, value: float | None, others: Mapping[str, float]) -> None:
        """Sends the value at the end, behind all reports; only the first one counts."""
        with self._lock:
            if self.final_value is not None:
                return
            self.final_value = spoken(value, others)
            self._send_waiting()
            self._write({"final": self.final_value})
            step = self.said[-1][0] + 1 if self.said else 0
        if others:
            self.points(step, others)

    def points(self, step: int, values: Mapping[str, float]) -> None:
        """Sends values to look at, a batch at a time."""
        with self._lock:
            time = now_ms()
            self._points += [(tag, step, time, wire(value)) for tag, value in values.items()]
            if len(self._points) >= POINTS_AT_ONCE:
                self._send_waiting()
            else:
                self._wake_sender()

    def status(self, status: int) -> None:
        """Sends the phase that begins, behind everything that was said before."""
        with self._lock:
            self._send_waiting()
            self._write({"status": status})

    def flush(self) -> None:
        """Sends what waits."""
        with self._lock:
            self._send_waiting()

    def tell(self, word: Mapping[str, Any]) -> None:
        """Sends a word of the process itself, behind everything that was said before."""
        with self._lock:
            self._send_waiting()
            self._write(word)

    def close(self) -> None:
        """Sends what waits and ends the thread; what the trial says from now on is sent by the next call."""
        with self._lock:
            self._send_waiting()
            self._closed = True
            self._lock.notify()
        if self._sender is not None:
            self._sender.join()

    def should_stop(self) -> bool:
        """Returns whether SIGTERM came; see StopRequest."""
        return self._stop.seen()

    def next_parameters(self) -> dict[str, Any] | None:
        """Asks for another trial's parameters and waits for them; what is said then is of that trial."""
        with self._asking:
            request = self.requests + 1
            self.tell({"asks": request})
            try:
                found = self.answer(request)
            except ValueError:
                self._take(request, goes_on=True)
                raise
            if found is not None:
                self._parameters = dict(found)
            self._take(request, goes_on=found is not None)
            return None if found is None else self.parameters()

    def _take(self, request: int, goes_on: bool) -> None:
        with self._lock:
            self._send_waiting()
            self.requests = request
            if goes_on:
                self.forget()
            self._write({"taken": request, "goes_on": goes_on})

    def forget(self) -> None:
        """Forgets what was said of a trial or a training that is over."""
        self.said.clear()
        self.final_value = None

    def said_of_this(self) -> dict[str, Any]:
        """Returns what was said of the trial that it has now, for the file that outlives the worker."""
        return {"reports": self.said, "final": self.final_value, "requests": self.requests}

    def _send_or_wait(self) -> None:
        if monotonic_s() - self._sent_at_s >= REPORT_EVERY_S:
            self._send_waiting()
        else:
            self._wake_sender()

    def _wake_sender(self) -> None:
        if self._sender is None:
            self._sender = threading.Thread(target=self._send_for_ever, name="trackside-channel", daemon=True)
            self._sender.start()
        self._lock.notify()

    def _send_for_ever(self) -> None:
        with self._lock:
            while not self._closed:
                while not (self._reports or self._points or self._closed):
                    self._lock.wait()
                # Sleeps without the lock, so that what comes meanwhile goes along.
                self._lock.wait_for(lambda: self._closed, timeout=REPORT_EVERY_S)
                self._send_waiting()

    def _send_waiting(self) -> None:
        if self._reports:
            self._write({"reports": self._reports})
            self._reports = []
            self._sent_at_s = monotonic_s()
        if self._points:
            self._write({"points": self._points})
            self._points = []

    def _write(self, line: Mapping[str, Any]) -> None:
        self._connection.sendall(json.dumps(line, allow_nan=False).encode() + b"\n")


def _no_answer(_request: int) -> None:
    """Has nobody to ask."""


def wire(value: float) -> float | str:
    """Writes a number for JSON: itself if it is finite, else `nan`, `inf` or `-inf`."""
    return value if math.isfinite(value) else str(value)


def spoken(value: float | None, others: Mapping[str, float]) -> Spoken:
    """Writes a deciding value for JSON, with the others that were said with it if there are any."""
    if value is not None and not others:
        return wire(value)
    named = {name: wire(other) for name, other in others.items()}
    return {"value": None if value is None else wire(value), "others": named}


def _shown(value: float | None, others: Mapping[str, float]) -> str:
    """Writes the numbers of a report for a person."""
    plain = "" if value is None else f" value={value:g}"
    return plain + "".join(f" {name}={other:g}" for name, other in others.items())
