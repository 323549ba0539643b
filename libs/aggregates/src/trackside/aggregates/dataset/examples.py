"""One example of every message of datasets, with every field in it: part of the published schemas."""

from trackside.aggregates.dataset.messages import (
    DatasetChanged,
    DatasetDeleted,
    DatasetObserved,
    DatasetPaused,
    DatasetRefused,
    DatasetRegistered,
    DatasetResumed,
    DatasetSpec,
    DatasetTruncated,
    DeleteDataset,
    DriftSpec,
    PauseDataset,
    RegisterDataset,
    ResumeDataset,
)
from trackside.contracts.envelope.message import Message

DATASET = DatasetSpec(
    url="s3://digits/samples.csv",
    format="csv",
    credential="datasets",
    look_s=5.0,
    queue="cpu",
    drift=DriftSpec(
        detector="ks",
        parameters={"combine": "max"},
        reference=500,
        window=200,
        columns=["brightness"],
    ),
    description="digits as they are written",
)
BY = {"watcher": 1, "attempt": 1, "placement": 2}
EXAMPLES: list[Message] = [
    RegisterDataset(**dict(DATASET)),
    PauseDataset(reason="the bucket moves"),
    ResumeDataset(),
    DeleteDataset(reason="replaced by faces"),
    DatasetRegistered(command_id="c-1", dataset=DATASET),
    DatasetObserved(
        **BY,
        begin=100,
        end=125,
        begin_byte=4_100,
        end_byte=5_125,
        sha256="5c" * 32,
        metrics={"drift": 0.12},
    ),
    DatasetTruncated(**BY, stop=1, observed_bytes=5_125, size_bytes=4_100),
    DatasetChanged(**BY, stop=2, observed_sha256="5c" * 32, sha256="a1" * 32),
    DatasetRefused(**BY, stop=3, code="bad_line", line=125, message="expected 3 columns, got 2"),
    DatasetPaused(command_id="c-2", change=1, reason="the bucket moves"),
    DatasetResumed(command_id="c-3", change=2),
    DatasetDeleted(command_id="c-4", change=3, reason="replaced by faces"),
]
