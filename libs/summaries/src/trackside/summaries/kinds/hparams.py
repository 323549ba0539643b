"""The kind hparams: the hyper-parameters of a run, and the metrics that runs are compared by."""

from typing import cast

from trackside.summaries.event_files.values import HParams, Status
from trackside.summaries.kinds.bodies import (
    cut,
    number,
    pack_json,
    to_float,
    to_integer,
    to_object,
    to_text,
    to_texts,
    unpack_json,
)
from trackside.summaries.kinds.kind import BadValue, Body, Packed, SummaryKind
from trackside.summaries.kinds.text_lines import clip, counted, table

SHOWN_NAMES = 50
"""Names of hyper-parameters in the body of a value that is an artifact."""
NAME_CHARACTERS = 100

_STATUS = (None, "succeeded", "failed", "running")


def pack(hparams: HParams) -> Packed:
    """Returns hyper-parameters as they are stored.

    The body has `parameters` and `metrics`, how many they are; with an artifact also `names`, the first ones.
    """
    description: Body = {"parameters": len(hparams.values), "metrics": len(hparams.metrics)}
    value = {
        "values": {name: _encode(each) for name, each in hparams.values.items()},
        "metrics": hparams.metrics,
        "group": hparams.group,
        "status": hparams.status,
    }
    packed = pack_json(description, value)
    if packed.data is None:
        return packed
    names = [clip(name, NAME_CHARACTERS) for name in list(hparams.values)[:SHOWN_NAMES]]
    return packed._replace(body={**description, "names": names})


def unpack(body: Body, data: bytes | None) -> HParams:
    """Returns the hyper-parameters. Raises BadValue."""
    found = to_object(unpack_json(body, data), "hyper-parameters")
    values = to_object(found.get("values"), "the values of hyper-parameters")
    status = found.get("status")
    if status not in _STATUS:
        raise BadValue(f"the status {cut(status)}", "succeeded, failed, running or null")
    return HParams(
        {name: _decode(each, name) for name, each in values.items()},
        to_texts(found.get("metrics"), "the metrics of hyper-parameters"),
        to_text(found.get("group"), "the group of hyper-parameters"),
        cast("Status | None", status),
    )


def lines(body: Body, width: int) -> list[str]:
    """Returns a table of names and values, then the metrics, the group and the status if there are any."""
    if "value" not in body:
        count = to_integer(body.get("parameters"), "the number of hyper-parameters")
        names = to_texts(body.get("names"), "the names of hyper-parameters")
        return [clip(line, width) for line in (counted(count, "hyper-parameter"), *names)]
    hparams = unpack(body, None)
    shown = table(
        [(clip(name, width), _shown(value, width)) for name, value in hparams.values.items()], width
    )
    if hparams.metrics:
        shown.append(clip("compared by " + ", ".join(hparams.metrics), width))
    if hparams.group:
        shown.append(clip(f"group {hparams.group}", width))
    return [*shown, f"status {hparams.status}"] if hparams.status else shown


def _shown(value: str | float | bool | None, width: int) -> str:
    if value is None or isinstance(value, bool):
        return {None: "-", True: "yes", False: "no"}[value]
    return clip(f"{value:.6g}" if isinstance(value, float) else value, width)


def _encode(value: str | float | bool | None) -> object:
    """Returns a value as JSON. A float is an object where it would be read again as something else.

    "nan" would be a text, and Postgres writes the number 1e16 and those above it as integers.
    """
    if isinstance(value, float) and not abs(value) < 1e16:
        return {"float": number(value)}
    return value


def _decode(value: object, name: str) -> str | float | bool | None:
    if isinstance(value, dict):
        return to_float(value.get("float"), f"the hyper-parameter {cut(name)}")
    if value is None or isinstance(value, str | float | bool | int):
        return value
    raise BadValue(
        f"the hyper-parameter {cut(name)} is {cut(value)}", "a text, a number, true, false or null"
    )


HPARAMS = SummaryKind("hparams", page_size=500, pack=pack, unpack=unpack, lines=lines)
