import re
from pathlib import Path

from tests.house.source import ROOT

LINK = re.compile(r"""(?:\]\(|<img src=")([^)"\s]+)[)"]""")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE_FILE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*/[a-z_]+\.py)`")
WRITTEN_FROM_CODE = ROOT / "docs" / "reference"


def pages() -> list[Path]:
    """Returns all pages that people write."""
    found = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
    found += sorted((ROOT / "deploy").rglob("*.md"))
    found += [page for page in sorted((ROOT / "docs").rglob("*.md")) if WRITTEN_FROM_CODE not in page.parents]
    found += sorted((ROOT / "services").glob("*/README.md"))
    return [page for page in found if "node_modules" not in page.parts]


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[tuple[str, Path, str]]:
    """Returns the links of a page to files of the repository: as written, the file, and the anchor."""
    found = []
    for link in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
        if not link.startswith(("http://", "https://")):
            path, _, anchor = link.partition("#")
            found.append((link, (page.parent / path).resolve() if path else page, anchor))
    return found


def test_every_link_points_at_a_file_and_a_heading() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages()
        for link, target, anchor in links(page)
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]
    assert broken == []


def test_every_page_of_the_documentation_is_linked_from_an_index() -> None:
    linked = {to for page in pages() if page.name in ("README.md", "nni.md") for _, to, _ in links(page)}
    docs = {page for page in pages() if page.parent.is_relative_to(ROOT / "docs")}
    assert {str(page.relative_to(ROOT)) for page in docs - linked} == set()


def test_every_code_file_that_a_page_names_exists() -> None:
    folders = [ROOT / folder for folder in ("libs", "services", "tests", "deploy")]
    known = ["/" + path.as_posix() for folder in folders for path in folder.rglob("*.py")]
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages()
        if page.parent.name != "adr"  # decisions name files as they were
        for name in CODE_FILE.findall(page.read_text("utf-8"))
        if not any(path.endswith("/" + name) for path in known) and not name.endswith("__init__.py")
    ]
    assert missing == []
