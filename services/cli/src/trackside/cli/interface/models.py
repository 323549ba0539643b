"""The commands `trackside models ...`: versions of trained weights, where they come from, which is in use."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trackside.cli.interface.options import JsonOption, LimitOption, ReasonOption
from trackside.cli.interface.publishing_options import publishes

if TYPE_CHECKING:
    from trackside.cli.commands.publishing import Publishing

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.")]
VersionArgument = Annotated[
    str, typer.Argument(metavar="MODEL@VERSION", help="Name of the model, and number of its version.")
]
ModelOrVersionArgument = Annotated[
    str,
    typer.Argument(metavar="MODEL[@VERSION]", help="Name of the model; with @ and a number one version."),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="One of safetensors, torch, onnx, npz, gguf, json, csv, text and file; by default by its name.",
    ),
]
SourceOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="STREAM/TASK/NAME[@VERSION]",
        help="An artifact of a task; what is known of the task becomes part of the version.",
    ),
]
TagOption = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="A word to find it by; may be repeated.")
]
LabelOption = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME=TEXT", help="A label with its text; may be repeated."),
]


def ls(limit: LimitOption = 30, as_json: JsonOption = False) -> None:
    """List models with their versions, and which one is in production, the newest first.

    \b
    Examples:
      trackside models ls
      trackside models ls --json
    """
    from trackside.cli.commands import models

    models.ls(limit, as_json)


def show(model: ModelOrVersionArgument, as_json: JsonOption = False) -> None:
    """Show a model with its versions, or all that is known of one version.

    \b
    Examples:
      trackside models show digits
      trackside models show digits@3
      trackside models show digits@3 --json
    """
    from trackside.cli.commands import models

    models.show(model, as_json)


def history(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Show what has changed in a model, in the order of the log, with the command and who published it.

    \b
    Examples:
      trackside models history digits
      trackside models history digits --json
    """
    from trackside.cli.commands import models

    models.history(model, as_json)


def why(
    model: VersionArgument,
    bill: Annotated[
        bool,
        typer.Option(
            "--bill",
            help="Print a bill of materials as JSON: samples, code, parameters, base models back to the "
            "first, and the numbers that decided about each deployment.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what led to a version of a model, from the log.

    \b
    Examples:
      trackside models why digits@3
      trackside models why digits@3 --bill
    """
    from trackside.cli.commands import models

    models.why(model, bill, as_json)


@publishes
def register(
    publishing: "Publishing",
    model: ModelArgument,
    description: Annotated[str, typer.Option(metavar="TEXT", help="What the model is for.")] = "",
    tag: TagOption = None,
    label: LabelOption = None,
) -> None:
    """Register a model, without versions.

    \b
    Examples:
      trackside models register digits --description "handwritten digits" --tag images --label owner=vision
    """
    from trackside.cli.commands import models

    body = {"description": description, "tags": tag or [], "labels": models.labels(label or [])}
    models.register(model, body, publishing)


@publishes
def add(
    publishing: "Publishing",
    model: ModelArgument,
    source: SourceOption = "",
    url: Annotated[
        str, typer.Option(metavar="URL", help="A file from outside instead: where it is, without secrets.")
    ] = "",
    sha256: Annotated[str, typer.Option(metavar="HEX", help="The SHA-256 of that file.")] = "",
    size: Annotated[int | None, typer.Option(metavar="BYTES", help="The size of that file.")] = None,
    credential: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the credential that reading the URL needs.")
    ] = "",
    format_: FormatOption = "",
    framework: Annotated[str, typer.Option(metavar="TEXT", help="What it was made with.")] = "",
    device: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="A kind of device it runs on, such as cpu; may be repeated."),
    ] = None,
    tag: TagOption = None,
    label: LabelOption = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A JSON or YAML file with the model's configuration.")
    ] = None,
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Anything else about it.")] = "",
) -> None:
    """Add a version to a model: an artifact of a task, or a file from outside by its URL and digest.

    \b
    Examples:
      trackside models add digits --from digits-1/7/weights --format safetensors
      trackside models add digits --from digits-1/digits-1.7/weights@2 --tag best --comment "after pruning"
      trackside models add digits --url https://example.org/m.onnx --sha256 5c5c... --size 5120
    """
    from trackside.cli.commands import models

    facts = {
        "format": format_,
        "framework": framework,
        "devices": device,
        "tags": tag,
        "comment": comment,
        "labels": models.labels(label or []),
        "config": models.config(config),
    }
    outside = {"uri": url, "sha256": sha256, "size_bytes": size, "credential": credential}
    models.add(model, source, outside, facts, publishing)


@publishes
def tag(
    publishing: "Publishing",
    model: ModelOrVersionArgument,
    add_: Annotated[list[str] | None, typer.Argument(metavar="[TAG]...", help="Tags to add.")] = None,
    remove: Annotated[
        list[str] | None, typer.Option(metavar="TAG", help="Tag to remove; may be repeated.")
    ] = None,
    label: LabelOption = None,
    remove_label: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Label to remove; may be repeated.")
    ] = None,
) -> None:
    """Add and remove tags and labels of a model or of a version.

    \b
    Examples:
      trackside models tag digits images
      trackside models tag digits@3 checked small --remove draft
      trackside models tag digits@3 --label license=mit --remove-label owner
    """
    from trackside.cli.commands import models

    labels = models.labels(label or []) | dict.fromkeys(remove_label or [])
    body = {"add": add_ or [], "remove": remove or [], "labels": labels}
    models.tag(model, body, publishing)


@publishes
def stage(
    publishing: "Publishing",
    version: VersionArgument,
    to: Annotated[
        Literal["none", "staging", "production", "archived"],
        typer.Argument(metavar="STAGE", help="The new stage: none, staging, production or archived."),
    ],
) -> None:
    """Set the stage of a version; staging and production are taken from the version that has it.

    \b
    Examples:
      trackside models stage digits@3 production
      trackside models stage digits@2 production      (back to the version before)
    """
    from trackside.cli.commands import models

    models.stage(version, to, publishing)


@publishes
def archive(
    publishing: "Publishing",
    model: ModelArgument,
    reason: ReasonOption = "",
) -> None:
    """Archive a model: it takes no versions, tags or stages until it is restored.

    \b
    Examples:
      trackside models archive digits --reason "replaced by faces"
    """
    from trackside.cli.commands import models

    models.archive(model, reason, publishing)


@publishes
def restore(
    publishing: "Publishing",
    model: ModelArgument,
) -> None:
    """Restore a model that was archived.

    \b
    Examples:
      trackside models restore digits
    """
    from trackside.cli.commands import models

    models.restore(model, publishing)
