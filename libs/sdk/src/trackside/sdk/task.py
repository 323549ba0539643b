"""What a user writes: a class with `load` and `train`, or with `load` and `serve`."""

from typing import Any


class Task:
    """One kind of work that a worker can run; make a subclass and name it in the worker's catalogue.

    A new object in a process of its own is made for each attempt, without arguments. Its parameters
    come from `trackside.sdk.trial`.
    """

    def load(self) -> None:
        """Reads what `train` needs into host memory; no device may be touched here."""

    def train(self, device: str) -> dict[str, Any] | None:
        """Does the work on `device`, as torch names it: `cpu` or `cuda:0`.

        Returns the result: a dict that JSON can hold, at most 64 KiB. Any exception fails the attempt.
        """
        raise NotImplementedError(f"{type(self).__name__} has no train(self, device)")


class Service:
    """A task that runs until it is stopped; its type has `runner: service` in the worker's catalogue.

    A new object in a process of its own is made for each attempt, without arguments.
    """

    def load(self) -> None:
        """Reads what `serve` needs into host memory; no device may be touched here."""

    def serve(self, device: str) -> None:
        """Serves on `device`, as torch names it: `cpu` or `cuda:0`; calls `trial.ready()` once it does.

        It is not to return: a service that ends by itself has failed, and is tried again.
        """
        raise NotImplementedError(f"{type(self).__name__} has no serve(self, device)")
