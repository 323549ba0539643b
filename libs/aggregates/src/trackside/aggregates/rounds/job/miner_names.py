"""The names of the miners of hard examples that come with Trackside, and of their parameters. Pure."""

import math
from collections.abc import Mapping
from types import MappingProxyType

from trackside.contracts.envelope.refusals import closest

BUILT_IN_MINERS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "Threshold": frozenset({"threshold"}),
        "CrossEntropy": frozenset({"threshold_cross_entropy"}),
        "IBT": frozenset({"threshold_img", "threshold_box"}),
        "Random": frozenset({"random_ratio", "seed"}),
        "CloudOnly": frozenset(),
        "EdgeOnly": frozenset(),
        "BertRouter": frozenset({"threshold"}),
    }
)
"""The parameters that each takes, by its name."""
_SAME = 92
"""How similar a name is that is taken for a misspelt one: `Treshold` is, `MyThreshold` is not."""


def misspelt(name: str) -> str | None:
    """Returns the miner of ours that a name is but for letter case, underscores or about one letter.

    Any other name may be that of a miner that only the hosts of workers know: of a package, or of a script.
    """
    if name in BUILT_IN_MINERS:
        return None
    plain = {_plain(ours): ours for ours in BUILT_IN_MINERS}
    found = closest(_plain(name[:200]), plain, _SAME)
    return None if found is None else plain[found]


def is_number(value: object) -> bool:
    """Returns whether a miner takes a value as a number: a finite one, or its text, as Sedna has it."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        return math.isfinite(float(value))
    except (ValueError, OverflowError):
        return False


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
