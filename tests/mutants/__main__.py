"""Draws mutants, records which tests run their lines, and tries each.

python -m tests.mutants plant SEED                   # in a clone: probes before the lines
python -m tests.mutants try SEED HITS... --most 80   # in a clone without probes
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.draw import EACH, drawn
from tests.mutants.probes import plant, tests_of
from tests.mutants.trial import tried

SHORT = "not long and not thorough"


def main(argv: Sequence[str] | None = None) -> int:
    """Reads the command line; `try` returns how many mutants survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("order", choices=("plant", "try"))
    parser.add_argument("seed", help="in hexadecimal, as the first digits of a commit")
    parser.add_argument("hits", nargs="*", type=Path, help="folders that runs with probes have written")
    parser.add_argument("--most", type=int, default=80, help="mutants that some test runs (80)")
    parser.add_argument("--skip", type=int, default=0, help="of these, so many that were tried before")
    parser.add_argument("--marks", default=SHORT, help=f"which tests: -m of pytest ({SHORT})")
    parser.add_argument("--json", type=Path, help="append a line for each mutant")
    options = parser.parse_args(argv)
    mutants = drawn(Path(), int(options.seed, 16), EACH)
    if options.order == "plant":
        plant(Path(), mutants)
        return 0
    tests: defaultdict[int, list[str]] = defaultdict(list)
    for folder in options.hits:
        for number, ids in tests_of(folder).items():
            tests[number] += ids
    chosen = [number for number in range(len(mutants)) if tests[number]][: options.most]
    survived = 0
    for number in chosen[options.skip :]:
        verdict = tried(Path(), mutants[number], tests[number], options.marks)
        survived += not verdict.killed_by
        print(f"{number}: {verdict}", flush=True)  # noqa: T201 - a program of the command line
        if options.json:
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"number": number, "killed_by": verdict.killed_by}) + "\n")
    print(f"{survived} of {len(chosen) - options.skip} mutants survived")  # noqa: T201
    return survived


if __name__ == "__main__":
    sys.exit(main())
