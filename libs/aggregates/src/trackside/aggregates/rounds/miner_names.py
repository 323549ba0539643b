"""The names of the miners of hard examples that come with Trackside, and of their parameters."""

from collections.abc import Mapping
from types import MappingProxyType

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
