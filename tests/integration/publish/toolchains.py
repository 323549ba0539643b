"""Other languages: what their examples need, fetched once into a cache that outlives the run."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples" / "publish"
REQUIRED = "TRACKSIDE_TEST_TOOLCHAINS"
"""`required`: a tool that isn't here, or can't fetch what it needs, fails the test instead of skipping it."""
FETCH_S = 300


@dataclass(frozen=True)
class Recipe:
    """How one example is made ready and run; `{at}` is its folder in the cache.

    `locked` are the files that say what is fetched: others mean another folder.
    """

    name: str
    tools: Sequence[str]
    locked: Sequence[str]
    ready: Sequence[Sequence[str]]
    run: Sequence[str]
    variables: Mapping[str, str]


RECIPES = (
    Recipe("kcat", ["bash", "kcat", "timeout"], ["publish.sh"], [], ["{at}/publish.sh"], {}),
    Recipe(
        "node",
        ["node", "npm"],
        ["package.json", "package-lock.json"],
        [["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]],
        ["node", "{at}/publish.js"],
        {},
    ),
    Recipe(
        "go",
        ["go"],
        ["go.mod", "go.sum"],
        [["go", "build", "-mod=readonly", "-buildvcs=false", "-o", "publish", "."]],
        ["{at}/publish"],
        {"GOMODCACHE": "{at}/.modules", "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local"},
    ),
    Recipe(
        "java",
        ["java", "mvn", "sha256sum"],
        ["pom.xml", "jars.sha256"],
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
    shutil.copytree(EXAMPLES / recipe.name, at, dirs_exist_ok=True)
    fetched = at / ".fetched"
    for step in [] if fetched.exists() and recipe.name != "go" else recipe.ready:
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
        if done.returncode:
            _give_up(f"{' '.join(step)} failed: {done.stdout[-500:]}")
    fetched.touch()
    return Program([_filled(word, at) for word in recipe.run], known)


def _filled(text: str, at: Path) -> str:
    return text.replace("{at}", str(at))


def _digest(recipe: Recipe) -> str:
    found = hashlib.sha256()
    for name in recipe.locked:
        found.update((EXAMPLES / recipe.name / name).read_bytes())
    return found.hexdigest()[:12]


def _give_up(reason: str) -> None:
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(reason)
    pytest.skip(reason)
