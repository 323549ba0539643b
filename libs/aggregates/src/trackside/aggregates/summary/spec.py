"""The spec files of summary jobs: there are none, what watches a directory registers its jobs."""

from trackside.domain.spec_kind import SpecKind

SPECS: tuple[SpecKind, ...] = ()
