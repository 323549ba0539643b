"""Other languages: what their examples need, fetched once into a cache that outlives the run."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples" / "publish"
REQUIRED = "TRACKSIDE_TEST_TOOLCHAINS"
"""`required`: a tool that isn't here, or can't fetch what it needs, fails the test instead of skipping it."""
FETCH_S = 300


@dataclass(frozen=True)
class Recipe:
    """How one example is made ready and run; `{at}` is its folder in the cache."""

    name: str
    tools: Sequence[str]
    ready: Sequence[Sequence[str]]
    run: Sequence[str]
    variables: Mapping[str, str]


RECIPES = (
    Recipe("kcat", ["bash", "kcat", "timeout"], [], ["{at}/publish.sh"], {}),
    Recipe(
        "node",
        ["node", "npm"],
        [["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]],
        ["node", "{at}/publish.js"],
        {},
    ),
    Recipe(
        "go",
        ["go"],
        [["go", "build", "-mod=readonly", "-buildvcs=false", "-o", "publish", "."]],
        ["{at}/publish"],
        {"GOMODCACHE": "{at}/.modules", "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local"},
    ),
    Recipe(
        "java",
        ["java", "mvn", "sha256sum"],
        [
            ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
            ["sh", "-c", "cd lib && sha256sum -c --quiet ../jars.sha256"],
        ],
        ["java", "-XX:TieredStopAtLevel=1", "-cp", "{at}/lib/*", "{at}/Publish.java"],
        {},
    ),
)


@dataclass(frozen=True)
class Program:
    """An example that is ready to run."""

    argv: Sequence[str]
    environment: Mapping[str, str]


def prepared(recipe: Recipe, cache: Callable[[str], Path]) -> Program:
    """Makes an example ready in the cache; skips the test where its tools or the network are missing."""
    missing = [tool for tool in recipe.tools if shutil.which(tool) is None]
    if missing:
        _give_up(f"{', '.join(missing)} is not on this machine")
    at = cache(f"publish-{recipe.name}-{_digest(recipe)}")
    with (at / ".lock").open("a") as lock:  # another worker of the run may be at it
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _made_ready(recipe, at)


def _made_ready(recipe: Recipe, at: Path) -> Program:
    known = dict(os.environ) | {name: _filled(text, at) for name, text in recipe.variables.items()}
    program = Program([_filled(word, at) for word in recipe.run], known)
    fetched = at / ".fetched"
    if fetched.exists():  # nothing is written where another worker may be running it
        return program
    shutil.copytree(EXAMPLES / recipe.name, at, dirs_exist_ok=True)
    for step in recipe.ready:
        try:
            done = subprocess.run(
                [_filled(word, at) for word in step],
                cwd=at,
                env=known,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=FETCH_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            _give_up(f"{' '.join(step)} took over {FETCH_S} s")
        if done.returncode:
            _give_up(f"{' '.join(step)} failed: {done.stdout[-500:]}")
    fetched.touch()
    return program


def _filled(text: str, at: Path) -> str:
    return text.replace("{at}", str(at))


def _digest(recipe: Recipe) -> str:
    found = hashlib.sha256()
    for path in sorted((EXAMPLES / recipe.name).iterdir()):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def _give_up(reason: str) -> NoReturn:
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(reason)
    pytest.skip(reason)
