"""NVIDIA's library as a test wants it: built from nvml.c, steered while a process uses it.

`FakeNvml.variables` go to a process that shall see the GPUs, such as a worker; `load` shows them to this one.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml.c")
STATE_VARIABLE = "FAKE_NVML_STATE"
GIB = 1 << 30
UNKNOWN = -1
"""The memory of a process of which the driver doesn't tell."""
NOT_LOADED = 9
LOST = 15


@dataclass(frozen=True)
class FakeGpu:
    """One GPU of the stand-in; `code` is what NVML answers about it, 0 if it is well."""

    uuid: str
    name: str
    total: int
    used: int | None = None
    reserved: int = 0
    utilisation: int = 0
    processes: tuple[tuple[int, int], ...] = ()
    code: int = 0

    def lines(self, index: int) -> list[str]:
        """Describes the GPU as nvml.c reads it; memory in use is that of its processes unless told."""
        used = self.used
        if used is None:
            used = self.reserved + sum(size for _, size in self.processes if size != UNKNOWN)
        numbers = f"{self.code} {self.total} {used} {self.reserved} {self.utilisation}"
        head = f"gpu {index} {numbers} {self.uuid} {self.name}"
        return [head, *(f"process {index} {pid} {size}" for pid, size in self.processes)]


class FakeNvml:
    """GPUs of 16 GiB, and whatever a test makes of them."""

    def __init__(self, library: Path, folder: Path, gpus: int = 4) -> None:
        self._library = library
        self._state = folder / "nvml-state"
        self._gpus = [FakeGpu(f"GPU-{index:08d}", f"Stand-in {index}", 16 * GIB) for index in range(gpus)]
        self._driver = self._generation = self._hangs = 0
        self._xids = (0, 0, 0)
        self._write()

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of a process that shall find this library and this state."""
        paths = [str(self._library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
        return {"LD_LIBRARY_PATH": ":".join(filter(None, paths)), STATE_VARIABLE: str(self._state)}

    @property
    def calls(self) -> list[str]:
        """What was called to open and close the library: `init` and `shutdown`, in order."""
        calls = self._state.with_name(f"{self._state.name}.calls")
        return calls.read_text().split() if calls.exists() else []

    def load(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Shows the GPUs to this process until the test ends; from then on, the library says: no driver."""
        monkeypatch.setenv(STATE_VARIABLE, str(self._state))
        ctypes.CDLL(str(self._library))  # found under its name, its soname, by whoever asks for it next

    def uuid(self, gpu: int) -> str:
        """The uuid of a GPU."""
        return self._gpus[gpu].uuid

    def set(
        self,
        gpu: int,
        *,
        used: int | None = None,
        processes: Iterable[tuple[int, int]] | None = None,
        utilisation: int | None = None,
        reserved: int | None = None,
        total: int | None = None,
    ) -> None:
        """Changes a GPU: bytes in use (those of its processes if not told), (pid, bytes) on it, percent."""
        changes = {"used": used, "utilisation": utilisation, "reserved": reserved, "total": total}
        known: dict[str, object] = {name: value for name, value in changes.items() if value is not None}
        if processes is not None:
            known = {"used": None, **known, "processes": tuple(processes)}
        self._change(gpu, **known)

    def lose(self, gpu: int, code: int = LOST) -> None:
        """Lets a GPU fall off the bus, or answer with another of NVML's error codes."""
        self._change(gpu, code=code)

    def recover(self, gpu: int) -> None:
        """Lets a GPU answer again."""
        self._change(gpu, code=0)

    def xid(self, gpu: int, number: int) -> None:
        """Lets a GPU report an Xid."""
        self._xids = (self._xids[0] + 1, gpu, number)
        self._write()

    def no_driver(self, code: int = NOT_LOADED) -> None:
        """Lets the driver go away: the library can't be opened, and answers nothing if it is."""
        self._driver = code
        self._write()

    def driver_again(self) -> None:
        """Brings the driver back; who had the library open must open it anew."""
        self._driver, self._generation = 0, self._generation + 1
        self._write()

    def hang(self) -> None:
        """Lets every call wait from now on."""
        self._hangs = 1
        self._write()

    def resume(self) -> None:
        """Lets the calls that wait go on."""
        self._hangs = 0
        self._write()

    def _change(self, gpu: int, **fields: object) -> None:
        self._gpus[gpu] = replace(self._gpus[gpu], **fields)  # type: ignore[arg-type]
        self._write()

    def _write(self) -> None:
        lines = [
            f"driver {self._driver} {self._generation} {self._hangs}",
            "xid {} {} {}".format(*self._xids),
        ]
        for index, gpu in enumerate(self._gpus):
            lines += gpu.lines(index)
        fresh = self._state.with_name(f"{self._state.name}.new")
        fresh.write_text("\n".join(lines) + "\n")
        fresh.replace(self._state)


def build(folder: Path) -> Path:
    """Compiles the stand-in into a folder and gives its path; skips the test where nothing compiles C."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("the stand-in of NVIDIA's library is written in C, and there is no cc, gcc or clang here")
    library = folder / "libnvidia-ml.so.1"
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]
    soname = f"-Wl,-soname,{library.name}"
    subprocess.run([compiler, *options, soname, "-o", str(library), str(SOURCE)], check=True)
    return library
