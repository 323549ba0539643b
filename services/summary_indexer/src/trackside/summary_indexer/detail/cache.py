"""Keeps decoded curves of jobs in memory, least recently used jobs leave first.

A curve is found again only while its series are as they were when it was read: how many points each has, and
which of them count. So nothing must be told to forget, whichever process writes.
"""

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Literal

from trackside.projections.summaries.points import PointColumns, PointRange
from trackside.projections.summaries.scalars import (
    CurveSource,
    ScalarCurve,
    ScalarQuery,
    make_curve,
    points_within,
)

CacheStatus = Literal["NOT_IN_CACHE", "CACHING", "CACHED", "FAILED"]
"""CACHED: all curves of the job were loaded; FAILED: a load ended with an error and can be tried again."""
WHOLE_POINTS = 10_000
"""A curve of up to so many points is kept whole, so any range of it is answered; a longer one is thinned."""
CURVE_BYTES = 1_000
"""About what a curve takes apart from its points."""
MAX_FAILURES = 1_000
"""How many failed loads are remembered."""
_CurveKey = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class _CachedCurve:
    source: CurveSource
    whole: PointColumns | None
    thinned: ScalarCurve | None
    limit: int | None

    @property
    def nbytes(self) -> int:
        if self.whole is not None:
            return self.whole.nbytes + CURVE_BYTES
        assert self.thinned is not None
        return self.thinned.points.nbytes + self.thinned.positions.nbytes + CURVE_BYTES


@dataclass(slots=True)
class _CachedJob:
    curves: dict[_CurveKey, _CachedCurve] = field(default_factory=dict)
    nbytes: int = 0
    is_loaded: bool = False


class DetailCache:
    """The curves of at most `max_jobs` jobs, and of at most `max_bytes` bytes together."""

    def __init__(self, max_jobs: int, max_bytes: int) -> None:
        self._max_jobs, self._max_bytes = max_jobs, max_bytes
        self._jobs: OrderedDict[str, _CachedJob] = OrderedDict()
        self._loading: set[str] = set()
        self._failed: OrderedDict[str, str] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def status(self, job_id: str) -> CacheStatus:
        """Returns the state of a job."""
        if job_id in self._loading:
            return "CACHING"
        if job_id in self._jobs and self._jobs[job_id].is_loaded:
            return "CACHED"
        return "FAILED" if job_id in self._failed else "NOT_IN_CACHE"

    def failure(self, job_id: str) -> str | None:
        """Returns why the last load of a job failed; None if it didn't."""
        return self._failed.get(job_id)

    def find(self, source: CurveSource, query: ScalarQuery) -> ScalarCurve | None:
        """Returns the curve that a read would return now, or None if it must be read."""
        job = self._jobs.get(source.job_id)
        found = None if job is None else job.curves.get((source.tag, source.attempt))
        if found is None or found.source != source or query.superseded != (source.attempt is not None):
            return None
        self._jobs.move_to_end(source.job_id)
        if found.whole is not None:
            return make_curve(source, points_within(found.whole, query.within), query)
        return found.thinned if found.limit == query.limit and _is_plain(query) else None

    def put(self, source: CurveSource, points: PointColumns, query: ScalarQuery) -> bool:
        """Keeps a curve of all its points, thinned as the query asks if it is long.

        Returns False if there is no room for it: it alone, or its job, is over the limit in bytes.
        """
        if len(points.steps) <= WHOLE_POINTS and not points.left_out:
            kept = _CachedCurve(source, points, None, None)
        else:
            plain = replace(query, within=PointRange(), axis="step")
            kept = _CachedCurve(source, None, make_curve(source, points, plain), query.limit)
        job = self._jobs.setdefault(source.job_id, _CachedJob())
        self._jobs.move_to_end(source.job_id)
        key = (source.tag, source.attempt)
        before = job.curves[key].nbytes if key in job.curves else 0
        if job.nbytes - before + kept.nbytes > self._max_bytes:
            return False
        job.curves[key] = kept
        job.nbytes += kept.nbytes - before
        self.nbytes += kept.nbytes - before
        self._evict()
        return True

    def start_load(self, job_id: str) -> bool:
        """Notes that a job is being loaded; returns False if it is already."""
        if job_id in self._loading:
            return False
        self._loading.add(job_id)
        self._failed.pop(job_id, None)
        return True

    def end_load(self, job_id: str, failure: str | None = None) -> None:
        """Notes that the load of a job has ended, with the reason if it failed."""
        self._loading.discard(job_id)
        if failure is not None:
            self._failed[job_id] = failure
            while len(self._failed) > MAX_FAILURES:
                self._failed.popitem(last=False)
            return
        self._jobs.setdefault(job_id, _CachedJob()).is_loaded = True
        self._jobs.move_to_end(job_id)
        self._evict()

    def _evict(self) -> None:
        while len(self._jobs) > self._max_jobs or self.nbytes > self._max_bytes:
            _, job = self._jobs.popitem(last=False)
            self.nbytes -= job.nbytes


def _is_plain(query: ScalarQuery) -> bool:
    return query.axis == "step" and query.within.is_everything
