"""What may be saved: the names, kinds and metadata of artifacts, and the error for what is not taken."""

import json
from collections.abc import Mapping
from typing import Any

from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.envelope.redaction import looks_secret
from trackside.contracts.tasks.artifacts import CHECKPOINT, MAX_METADATA_BYTES
from trackside.contracts.wire.secret_search import secrets_in
from trackside.sdk.in_task.channel import CodedError

FILE, RESULT = "file", "result"
_OWN_KINDS = {CHECKPOINT: "trial.checkpoint saves those", RESULT: "it is for what train returns"}


class SaveError(CodedError):
    """An artifact was not taken; `code` says why, such as `artifact_changed` or `spool_full`."""


def check_artifact(name: str, kind: str, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the metadata of an artifact as plain JSON. Raises SaveError for what may not be saved so."""
    _check_name("name", name)
    _check_name("kind", kind)
    if kind in _OWN_KINDS or name == CHECKPOINT:
        why = _OWN_KINDS.get(kind, _OWN_KINDS[CHECKPOINT])
        raise SaveError("bad_artifact", f"{name}: name or kind is not for trial.save: {why}")
    try:
        text = json.dumps(dict(metadata or {}), allow_nan=False)
        found: dict[str, Any] = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise SaveError("bad_artifact", f"{name}: the metadata are not JSON: {error}") from error
    if len(text.encode()) > MAX_METADATA_BYTES:
        raise SaveError(
            "bad_artifact",
            f"{name}: the metadata have {len(text.encode()):,} bytes, more than {MAX_METADATA_BYTES:,}: "
            "save a file instead",
        )
    if any(secrets_in([name, kind, found])):
        raise SaveError(
            "secret_suspected",
            "the name, the kind or the metadata of an artifact look like a secret, which isn't repeated; "
            "name a credential instead",
        )
    return found


def _check_name(what: str, text: object) -> None:
    if isinstance(text, str) and is_identifier(text):
        return
    code = "path_outside_store" if isinstance(text, str) and ("/" in text or ".." in text) else "bad_artifact"
    shown = "" if isinstance(text, str) and looks_secret(text) else f" {text!r:.200}"
    raise SaveError(
        code, f"the {what}{shown} of an artifact is not an identifier: expected {IDENTIFIER_RULE}"
    )
