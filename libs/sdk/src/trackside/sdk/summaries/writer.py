"""SummaryWriter: the calls of torch.utils.tensorboard, for tasks and for programs without a worker."""

import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from trackside.eventlog.clock import now_ms
from trackside.sdk.summaries.arrays import array_of, number_of
from trackside.sdk.summaries.destinations import At, destination_of
from trackside.sdk.summaries.histograms import histogram_of, raw_histogram
from trackside.sdk.summaries.model_graph import graph_of
from trackside.sdk.summaries.pictures import figure_image, image_of
from trackside.summaries.event_files.milliseconds import milliseconds
from trackside.summaries.event_files.values import HParams, TextRows
from trackside.summaries.event_files.writing import PlainHParam


class SummaryWriter:
    """Records curves, images, histograms and more, with the calls and arguments of torch's SummaryWriter.

    In a task all of it is reported to the worker, and is in the log; otherwise it is written to event files
    below `log_dir`, which TensorBoard shows. There each record is written at once, so `max_queue` and
    `flush_secs` change nothing. The folder is made in both cases.

    In a task a value without `global_step` gets the next step of its tag, and a second writer with a
    `log_dir` of its own puts the folder's name before its tags. Tensors of torch, TensorFlow and JAX, arrays,
    figures of matplotlib and pictures of PIL are taken. Raises TypeError and ValueError for what is none.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        self.log_dir = os.fspath(log_dir) if log_dir else _default_folder(comment)
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        Path(self.log_dir).mkdir(parents=True, exist_ok=True)
        self._to = destination_of(self.log_dir, bool(log_dir), filename_suffix, purge_step)

    def get_logdir(self) -> str:
        """Returns the folder of the event files; in a task it holds none."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Adds a number. In an event file it has 32 bits, unless it is new style and double."""
        value = number_of("add_scalar", scalar_value)
        width = (64 if double_precision else 32) if new_style else None
        self._to.scalar(str(tag), value, _at(global_step, walltime), width)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Adds numbers by name, shown in one chart. In a task their tags are `main_tag/name`."""
        values = {str(tag): number_of("add_scalars", each) for tag, each in tag_scalar_dict.items()}
        self._to.scalars(str(main_tag), values, _at(global_step, walltime))

    def add_tensor(
        self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Adds a whole tensor."""
        self._to.item("tensor", str(tag), array_of(tensor), _at(global_step, walltime))

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Adds the histogram of an array; `bins` are `tensorflow` or what numpy.histogram takes."""
        found = histogram_of(values, bins, max_bins)
        self._to.item("histogram", str(tag), found, _at(global_step, walltime))

    def add_histogram_raw(
        self,
        tag: str,
        min: Any,  # noqa: A002 - as torch's writer has it
        max: Any,  # noqa: A002
        num: Any,
        sum: Any,  # noqa: A002
        sum_squares: Any,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Adds a histogram that is counted already, by right edges and counts; `num` is the counts' sum."""
        found = raw_histogram(min, max, (sum, sum_squares), bucket_limits, bucket_counts)
        self._to.item("histogram", str(tag), found, _at(global_step, walltime))

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Adds a picture: bytes from 0 to 255, or other numbers from 0 to 1."""
        self._to.item("image", str(tag), image_of(img_tensor, dataformats), _at(global_step, walltime))

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Adds a batch of pictures as one: a grid of 8 columns."""
        self._to.item("image", str(tag), image_of(img_tensor, dataformats), _at(global_step, walltime))

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Adds a figure of matplotlib, or a list of them of one size, as a picture, and closes them."""
        self._to.item("image", str(tag), figure_image(figure, close), _at(global_step, walltime))

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Adds a text, which TensorBoard shows as Markdown."""
        self._to.item("text", str(tag), TextRows([str(text_string)], (1,)), _at(global_step, walltime))

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Adds the graph of a model of torch, traced with an input; prints it if `verbose`."""
        graph = graph_of(model, input_to_model, verbose, use_strict_trace)
        self._to.item("graph", "graph", graph, _at(None, None))

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Adds hyper-parameters, and the metrics that runs are compared by.

        In event files they are a run of their own, `run_name` below `log_dir`, the time if it has no name.
        """
        domains = hparam_domain_discrete or {}
        if not all(isinstance(each, dict) for each in (hparam_dict, metric_dict, domains)):
            raise TypeError("add_hparams: hparam_dict, metric_dict and hparam_domain_discrete must be dicts")
        metrics = {str(tag): number_of("add_hparams", value) for tag, value in metric_dict.items()}
        values = {str(name): _plain(name, value) for name, value in hparam_dict.items()}
        for name, domain in domains.items():
            known = type(hparam_dict[name]) if name in hparam_dict else None
            if known is None or not all(isinstance(each, known) for each in domain):
                raise TypeError(
                    f"add_hparams: hparam_domain_discrete[{name!r}] must be a list of values of the type of "
                    f"hparam_dict[{name!r}]"
                )
        given = HParams(values, list(metrics), status="succeeded")
        self._to.hparams(given, metrics, domains, run_name or "", _at(global_step, None))

    def flush(self) -> None:
        """Sends what waits; event files are complete at any time."""
        self._to.flush()

    def close(self) -> None:
        """Flushes and closes; a value that is added afterwards opens another file."""
        self._to.close()

    if not TYPE_CHECKING:  # a checker of types is to find a wrong name

        def __getattr__(self, name: str) -> NoReturn:
            """Raises AttributeError; of a call of torch's or tensorboardX's with what to use instead."""
            raise AttributeError(absent_call(name), name=name, obj=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _at(step: Any, walltime: float | None) -> At:
    """Returns step and time; a step may be a number of numpy or torch."""
    time_ms = now_ms() if walltime is None else milliseconds(walltime)
    return At(None if step is None else int(step), time_ms)


def _plain(name: str, value: Any) -> PlainHParam:
    """Returns a hyper-parameter as it is written. Raises ValueError for another type."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int) or hasattr(value, "item"):
        return number_of(f"add_hparams: {name}", value)
    raise ValueError(
        f"add_hparams: {name} must be a number, a text, a bool, a tensor of one number or None, "
        f"not {type(value).__name__}"
    )


def _default_folder(comment: str) -> str:
    """Returns torch's default: runs/TIME_HOSTNAME and the comment."""
    now = datetime.fromtimestamp(now_ms() / 1000, UTC).astimezone()
    return str(Path("runs") / f"{now:%b%d_%H-%M-%S}_{socket.gethostname()}{comment}")


_ARTIFACT = "save the file as an artifact: trial.save(name, path)"
_CHART = "charts are chosen where they are read: trackside summaries scalars JOB --tag A --tag B"
_FIGURE = "add_figure(tag, figure), or add_tensor(tag, tensor)"
INSTEAD = {
    "add_image_with_boxes": "draw the boxes, then add_image(tag, image)",
    "add_video": f"add_images(tag, frames), or {_ARTIFACT}",
    "add_audio": _ARTIFACT,
    "add_embedding": "add_tensor(tag, tensor); there is no projector",
    "add_pr_curve": _FIGURE,
    "add_pr_curve_raw": _FIGURE,
    "add_mesh": _ARTIFACT,
    "add_custom_scalars": _CHART,
    "add_custom_scalars_marginchart": _CHART,
    "add_custom_scalars_multilinechart": _CHART,
    "add_onnx_graph": _ARTIFACT,
    "add_openvino_graph": _ARTIFACT,
    "export_scalars_to_json": "trackside summaries scalars JOB --json, or trackside summaries export JOB",
    "use_metadata": "give global_step and walltime to each call",
}
"""By name of the call."""


def absent_call(name: str) -> str:
    """Returns the message of the AttributeError for a name that the writer does not have."""
    if name in INSTEAD:
        return f"SummaryWriter of trackside has no {name}; instead: {INSTEAD[name]}"
    return f"SummaryWriter of trackside has no {name}"
