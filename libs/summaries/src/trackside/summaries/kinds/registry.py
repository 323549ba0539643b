"""The kinds by name: those of Trackside, and those of installed packages."""

import logging
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from types import MappingProxyType

from trackside.contracts.fleet.plugins import check_plugin_name, load_plugins, package_of
from trackside.summaries.kinds.graph import GRAPH, OPTIMIZED_GRAPH
from trackside.summaries.kinds.histogram import HISTOGRAM
from trackside.summaries.kinds.hparams import HPARAMS
from trackside.summaries.kinds.image import IMAGE
from trackside.summaries.kinds.kind import SummaryKind
from trackside.summaries.kinds.loss_landscape import LOSS_LANDSCAPE
from trackside.summaries.kinds.scalar import SCALAR
from trackside.summaries.kinds.tensor import TENSOR
from trackside.summaries.kinds.text import TEXT

GROUP = "trackside.summary_kinds"
"""The entry-point group of kinds: name = "module:OBJECT", the object a SummaryKind of the same name."""
BUILT_IN: Mapping[str, SummaryKind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            SCALAR,
            IMAGE,
            HISTOGRAM,
            TENSOR,
            TEXT,
            GRAPH,
            OPTIMIZED_GRAPH,
            LOSS_LANDSCAPE,
            HPARAMS,
        )
    }
)

_log = logging.getLogger("trackside.summaries")


def installed_kinds() -> Mapping[str, SummaryKind]:
    """Returns the built-in kinds and those of installed packages.

    A kind of a package that fails to load, or has the name of another kind, is left out; a line of the log
    has the reason.
    """
    found, broken = load_plugins(GROUP, BUILT_IN, _loaded)
    for point, error in broken:
        _log.error("summary kind %r%s is not available: %s", point.name, package_of(point), error)
    return MappingProxyType(found)


def _loaded(point: EntryPoint, found: Mapping[str, SummaryKind]) -> SummaryKind:
    """Returns the kind of an entry point. Raises ValueError for a bad one, or what its module raises."""
    check_plugin_name(point, found, BUILT_IN, "kind")
    kind = point.load()
    if not isinstance(kind, SummaryKind):
        raise ValueError(f"{point.value} is a {type(kind).__name__}; expected a SummaryKind")
    if kind.name != point.name:
        raise ValueError(f"{point.value} has the name {kind.name!r}; expected that of its entry point")
    return kind


KINDS: Mapping[str, SummaryKind] = installed_kinds()
"""The kinds that were installed when this module was imported."""
