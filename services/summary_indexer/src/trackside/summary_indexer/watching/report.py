"""Tells what a watcher has done so far."""

from dataclasses import dataclass, field
from typing import get_args

from trackside.summaries.directories import AccessProblem

ACCESS_PROBLEMS = frozenset(get_args(AccessProblem))


@dataclass(slots=True)
class WatchReport:
    """What a watcher has done so far; `problems` are by path of the job and name of the file.

    A directory that can't be read has the name "". `files` counts each reading of a file, `bytes` those whose
    content is in the log. `found` directories had something new, `scanned` of them are read. `left_out` are
    the values of files that are not indexed, `deleted` the ids of jobs that are skipped.
    """

    found: int = 0
    scanned: int = 0
    jobs: int = 0
    files: int = 0
    bytes: int = 0
    points: int = 0
    items: int = 0
    left_out: int = 0
    deleted: set[str] = field(default_factory=set)
    problems: dict[tuple[str, str], str] = field(default_factory=dict)
    most_problems: int = 1_000

    def note(self, path: str, name: str, code: str) -> None:
        """Notes the problem of a file, or that it has none; of very many, only the first ones are kept."""
        if not code:
            self.problems.pop((path, name), None)
        elif len(self.problems) < self.most_problems or (path, name) in self.problems:
            self.problems[path, name] = code

    def unreadable_directories(self) -> set[str]:
        """Returns the paths of the directories that are noted as unreadable."""
        return {path for (path, name), code in self.problems.items() if not name and code in ACCESS_PROBLEMS}
