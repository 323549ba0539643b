"""A task that computes a Fibonacci number in the plainest way, to keep a processor busy."""

import time
from typing import Any

from trackside.sdk import Task, trial


def fibo(n: int) -> int:
    """Returns the Fibonacci number of n, by recursion."""
    return n if n < 2 else fibo(n - 1) + fibo(n - 2)


class Fibonacci(Task):
    """Returns the number, and when it was computed: s of the monotonic clock of the host."""

    def train(self, device: str) -> dict[str, Any]:
        """Computes it."""
        trains_s = time.monotonic()
        found = fibo(int(trial.parameters()["n"]))
        return {"number": found, "trains_s": trains_s, "ended_s": time.monotonic()}
