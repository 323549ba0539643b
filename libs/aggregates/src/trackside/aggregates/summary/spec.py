"""The spec files of summary jobs: there are none, what watches a directory registers its jobs."""

from trackside.domain.folding.spec_kind import SpecKind

SPECS: tuple[SpecKind, ...] = ()
