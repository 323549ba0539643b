"""What the pages read with."""

from dataclasses import dataclass, field

from trackside.artifacts.store import Store
from trackside.summary_indexer.api.threads import DaemonThreads
from trackside.summary_indexer.detail.loads import CurveReads

THREADS = 4
"""How many requests read or decode bytes at once."""


@dataclass(frozen=True, slots=True)
class ApiReads:
    """What the pages read with; `store` is None where the installation has none."""

    curves: CurveReads
    store: Store | None
    threads: DaemonThreads = field(default_factory=lambda: DaemonThreads(THREADS))
