"""The files and folders that a job writes: no two jobs may have the same. Pure."""

import posixpath
from collections.abc import Iterator

from trackside.aggregates.rounds.job.job_spec import JobSpec
from trackside.aggregates.rounds.job.referenced_streams import dataset_state
from trackside.aggregates.rounds.messages import JobStatus
from trackside.aggregates.rounds.state import IncrementalJob, job_of
from trackside.contracts.envelope.refusals import Problem
from trackside.domain.folding.lookup import Lookup

_LOCAL = ("file://localhost/", "file:///")


def written_by(job: JobSpec) -> dict[str, str]:
    """Returns the URLs that belong to one job alone, by their fields.

    `deploy.config` is not among them: each job has a folder of its own below it.
    """
    copy_to = job.deploy.copy_to
    return {"output": job.output.url} | ({} if copy_to is None else {"deploy.copy_to": copy_to.url})


def key_of(url: str) -> str:
    """Returns the key that a file or folder is found by: the same for a path and its `file://` URL."""
    for prefix in _LOCAL:
        if url.startswith(prefix):
            url = f"/{url.removeprefix(prefix)}"
    scheme, mark, path = url.rpartition("://")
    return f"written:{scheme}{mark}{posixpath.normpath(path)}"


def index_keys(job: IncrementalJob) -> Iterator[tuple[str, int]]:
    """Yields the keys of what a job writes, with the time when it was created."""
    for url in written_by(job.spec).values():
        yield key_of(url), job.created_ms


def problems(job: JobSpec, job_id: str, lookup: Lookup, path: str) -> Iterator[Problem]:
    """Yields a problem for each place that another job writes, or that is the dataset of this one."""
    dataset = dataset_state(lookup, job.dataset.name)
    samples = "" if dataset is None else key_of(dataset.spec.url)
    for name, url in written_by(job).items():
        key = key_of(url)
        if key == samples:
            message = f"{url} is dataset {job.dataset.name!r}; expected a place that nothing else writes"
            yield Problem(code="place_in_use", path=f"{path}.{name}.url", message=message)
            continue
        owner = _owner(key, job_id, lookup)
        if owner is not None:
            message = f"job {owner!r} writes to {url}; expected another place, or delete that job first"
            yield Problem(code="place_in_use", path=f"{path}.{name}.url", message=message)


def _owner(key: str, job_id: str, lookup: Lookup) -> str | None:
    """Returns the job that writes to a place; None if there is none but deleted ones."""
    for stream in lookup.having(key):
        job = job_of(stream)
        if job is None or job.job_id == job_id or job.status is JobStatus.DELETED:
            continue
        if key in map(key_of, written_by(job.spec).values()):
            return job.job_id
    return None
