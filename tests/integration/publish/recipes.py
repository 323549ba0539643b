"""Examples in other languages: their dependencies are fetched once into a permanent cache."""

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

RECIPES_FOLDER = Path(__file__).parents[3] / "deploy" / "examples" / "publish"
REQUIRED = "TRACKSIDE_TEST_TOOLCHAINS"
"""`required`: a missing tool, or one without its dependencies, fails the test; else it is skipped."""
FETCH_S = 300


@dataclass(frozen=True)
class Recipe:
    """How an example is prepared and run; `{at}` is its folder in the cache."""

    name: str
    tools: Sequence[str]
    prepare: Sequence[Sequence[str]]
    run: Sequence[str]
    variables: Mapping[str, str]

    @property
    def folder(self) -> Path:
        return RECIPES_FOLDER / self.name


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
        [["go", "build", "-mod=readonly", "-buildvcs=false", "-o", "program", "."]],
        ["{at}/program"],
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
class ReadyRecipe:
    """An example that is ready to run."""

    argv: Sequence[str]
    environment: Mapping[str, str]


def prepare(recipe: Recipe, cache: Callable[[str], Path]) -> ReadyRecipe:
    """Prepares an example in the cache; skips the test if its tools or the network are missing."""
    missing = [tool for tool in recipe.tools if shutil.which(tool) is None]
    if missing:
        _skip_or_fail(f"{', '.join(missing)} is not on this machine")
    at = cache(f"publish-{recipe.name}-{_digest(recipe)}")
    with (at / ".lock").open("a") as lock:  # another worker of the run may be preparing it
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _prepare(recipe, at)


def _prepare(recipe: Recipe, at: Path) -> ReadyRecipe:
    known = dict(os.environ) | {name: _filled(text, at) for name, text in recipe.variables.items()}
    program = ReadyRecipe([_filled(word, at) for word in recipe.run], known)
    fetched = at / ".fetched"
    if fetched.exists():  # don't write: another worker may be running it
        return program
    shutil.copytree(recipe.folder, at, dirs_exist_ok=True)
    for step in recipe.prepare:
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
            _skip_or_fail(f"{' '.join(step)} took over {FETCH_S} s")
        if done.returncode:
            _skip_or_fail(f"{' '.join(step)} failed: {done.stdout[-500:]}")
    fetched.touch()
    return program


def _filled(text: str, at: Path) -> str:
    return text.replace("{at}", str(at))


def _digest(recipe: Recipe) -> str:
    found = hashlib.sha256()
    for path in sorted(recipe.folder.iterdir()):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def _skip_or_fail(reason: str) -> NoReturn:
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(reason)
    pytest.skip(reason)
