"""What the tree must look like; the first file to read when everything else fails at once."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from tests.house import source
from tests.house.source import ROOT, shown

FILE_LIMIT_LINES = 600
FUNCTION_LIMIT_LINES = 60
PARAMETER_LIMIT = 7
OPTIONS_OF_COMMANDS = ROOT / "services/cli/src/trackside/cli/interface"
"""Typer makes an option of each parameter, so these functions have as many as their commands have options."""
MANY_PARAMETERS = {
    "Search.__init__": "users name the fields of a search, each by a keyword of its own",
    "SummaryWriter.add_histogram_raw": "the arguments of torch's SummaryWriter",
}
RE_EXPORTS = {
    "libs/compat",
    "libs/incremental",
    "libs/sdk",
}  # what users import: `from trackside.sdk import Client, Task, trial`
NAMES_THAT_SAY_NOTHING = re.compile(r"(^|_)(manager|helpers?|utils?|common|base|data|info)(_|$)")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".yaml", ".yml", ".sql", ".json", ".sh", ".cfg", ".txt", ".tpl"}
SOMEBODYS_MACHINE = re.compile(
    r"(?<![\w.:/$}~-])/(?:home|root|Users|work|workspace)/\w|\b(?:artifactory|devpi|jfrog|nexus)[\w-]*\.\w"
)


def test_the_namespace_has_no_package_file_of_its_own() -> None:
    stray = [shown(path) for path in source.python_files() if path.parts[-2:] == ("trackside", "__init__.py")]
    assert stray == [], "one such file hides every other package of the namespace: remove it"


@pytest.mark.parametrize("member", source.members())
def test_a_package_is_typed_and_its_init_holds_a_docstring_only(member: str) -> None:
    package = source.package(member)
    assert (package / "py.typed").is_file()
    for init in package.rglob("__init__.py"):
        body = source.tree(init).body
        assert ast.get_docstring(source.tree(init)), f"{shown(init)} says nothing of its package"
        extra = [node for node in body[1:] if not (member in RE_EXPORTS and _is_re_export(node))]
        assert extra == [], f"{shown(init)}:{extra[0].lineno} re-exports or runs something"


def _is_re_export(node: ast.stmt) -> bool:
    """Tells whether a statement only hands on names: an import, `__all__`, or a lazy `__getattr__`."""
    if isinstance(node, ast.Assign):
        return [ast.unparse(target) for target in node.targets] == ["__all__"]
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.ImportFrom) or (
        isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
    )


def test_every_tool_and_the_wheel_know_every_package() -> None:
    roots = sorted(f"{member}/src" for member in source.members())
    tool = source.project()["tool"]
    wheel = tool["hatch"]["build"]["targets"]["wheel"]
    assert sorted(path for path in wheel["sources"] if path.endswith("/src")) == roots
    assert sorted(wheel["dev-mode-dirs"]) == roots
    assert sorted(tool["ruff"]["src"]) == roots
    assert sorted(tool["mypy"]["mypy_path"]) == sorted([*roots, "deploy"])
    assert sorted(path for path in tool["mypy"]["files"] if path.endswith("/src")) == roots
    assert "tests" in tool["mypy"]["files"]


def test_no_file_is_over_the_limit() -> None:
    lengths = {shown(path): len(path.read_text("utf-8").splitlines()) for path in source.python_files()}
    assert {name: lines for name, lines in lengths.items() if lines > FILE_LIMIT_LINES} == {}


def test_a_docstring_begins_with_what_is_done_in_the_usual_words() -> None:
    unusual = re.compile(r'"""(?:Says|Gives|Has) ')
    found = [shown(path) for path in source.python_files() if unusual.search(path.read_text("utf-8"))]
    assert found == [], "write Returns, Yields, Reports, Makes or Keeps"


def test_a_program_begins_at_the_end_of_its_module() -> None:
    early = [
        shown(path)
        for path in source.python_files()
        if any(_is_entry(node) for node in source.tree(path).body[:-1])
    ]
    assert early == [], "what is defined below it does not exist yet when the program runs"


def _is_entry(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def test_no_function_is_over_the_limit() -> None:
    long = {}
    for path in source.python_files():
        for node in source.nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                lines = node.end_lineno - node.lineno + 1
                if lines > FUNCTION_LIMIT_LINES:
                    long[f"{shown(path)}:{node.lineno} {node.name}"] = lines
    assert long == {}


def test_no_function_has_more_parameters_than_one_remembers() -> None:
    many = {}
    for path in source.python_files("libs", "services"):
        if path.is_relative_to(OPTIONS_OF_COMMANDS):
            continue
        for name, function in _functions(path):
            arguments = function.args
            plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            rest = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
            names = [each.arg for each in (*plain, *rest) if each.arg not in ("self", "cls")]
            if len(names) > PARAMETER_LIMIT and name not in MANY_PARAMETERS:
                many[f"{shown(path)} {name}"] = names
    assert many == {}, "group what belongs together, or take the ServiceContext"


def _functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yields all functions of a module, methods by the name of their class too."""
    classes = [node for node in source.nodes(path) if isinstance(node, ast.ClassDef)]
    class_of = {inner: node.name for node in classes for inner in node.body}
    for node in source.nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{class_of[node]}.{node.name}" if node in class_of else node.name, node


def test_no_module_has_a_name_that_says_nothing() -> None:
    names = {
        shown(path): path.stem if path.stem != "__init__" else path.parent.name
        for path in source.python_files()
    }
    assert {name for name, stem in names.items() if NAMES_THAT_SAY_NOTHING.search(stem)} == set()


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {path.parent for path in source.python_files("tests")}
    folders |= {
        above for folder in folders for above in folder.parents if (ROOT / "tests") in (above, *above.parents)
    }
    assert {shown(folder) for folder in folders if not (folder / "__init__.py").is_file()} == set()


def test_no_test_sleeps() -> None:
    # test_virtual_loop.py is about time that nobody waits for; polling.py is for what rings no bell; the
    # last two count what is done in a time.
    found = [
        f"{shown(path)}:{call.lineno}"
        for path in source.python_files("tests")
        if path.name not in ("test_virtual_loop.py", "polling.py", "counting.py", "sitecustomize.py")
        for call in source.nodes(path)
        if isinstance(call, ast.Call) and _sleeps(call)
    ]
    assert found == [], "wait on a signal or on the log"


def _sleeps(call: ast.Call) -> bool:
    """Tells whether a call is to a `sleep`; `sleep(0)`, which only lets others run, is none."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    nothing = len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
    return name == "sleep" and not nothing


@pytest.mark.parametrize("member", source.members())
def test_every_setting_says_what_it_is(member: str) -> None:
    undescribed = []
    for path in source.package(member).rglob("settings.py"):
        dotted = ".".join(path.relative_to(ROOT / member / "src").with_suffix("").parts)
        module = importlib.import_module(dotted)
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, BaseSettings) and kind.__module__ == dotted:
                undescribed += [
                    f"{dotted}.{kind.__name__}.{n}" for n, f in kind.model_fields.items() if not f.description
                ]
    assert undescribed == []


def test_nothing_names_somebodys_machine() -> None:
    found = [
        f"{shown(path)}:{number}"
        for path in _texts()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if SOMEBODYS_MACHINE.search(line)
    ]
    assert found == []


def _texts() -> list[Path]:
    folders = [ROOT / folder for folder in (*source.OWN, "docs", ".ci")]
    below = [
        path for folder in folders for path in folder.rglob("*") if not set(path.parts) & set(source.NOT_OURS)
    ]
    here = [path for path in ROOT.iterdir() if path.name in ("Makefile", "Dockerfile")]
    here += [path for path in [*ROOT.iterdir(), *below] if path.suffix in TEXT_SUFFIXES]
    return [path for path in here if path.is_file() and path != Path(__file__)]


def test_the_index_of_decisions_lists_every_one() -> None:
    folder = ROOT / "docs" / "adr"
    if not folder.is_dir():
        pytest.skip("no decisions are written down yet")
    index = (folder / "README.md").read_text("utf-8")
    decisions = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [name for name in decisions if name not in index] == []
    assert [name for name in decisions if not re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", name)] == []
    numbers = [name[:4] for name in decisions]
    assert len(set(numbers)) == len(numbers)
