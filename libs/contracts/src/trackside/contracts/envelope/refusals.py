"""Why something is refused: a code to act on, the place, and a sentence for a person."""

from collections.abc import Collection, Iterable
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from trackside.contracts.envelope.message import Json, is_absent
from trackside.contracts.envelope.nni_names import nni_hint
from trackside.contracts.envelope.step_names import step_hint

SIMILAR = 60
"""Percent of the characters of two names that must be the same, in this order, for a hint."""
MAX_PROBLEMS = 100
"""How many problems a refusal lists."""
MAX_PROBLEM_TEXT = 500
"""How many characters a path and a message have each in a list of problems; longer ones are shortened."""
MAX_PROBLEMS_TEXT = 32_000
"""How many characters all problems of a list have together: records and remembered refusals stay small."""

TOO_MANY = "too_many"
"""The code of a publication that is beyond a limit of its publisher: its command may be published again."""

DEAD_LETTER_CODES = {
    "empty_payload": "The record has no value.",
    "not_utf8": "The value is not UTF-8.",
    "not_json": "The value is not JSON.",
    "not_object": "The value is JSON, but not an object.",
    "not_valid": "The message has a type of ours, but not its fields.",
    "unknown_type": "The message has a type that this release doesn't know.",
    "unexpected_type": "The message doesn't belong in its topic.",
    "bad_tag": "The tag of a series is empty, over 1,000 characters, or has control characters.",
    "tombstone": "The record of a topic that keeps everything has no value.",
    "too_slow": "Postgres did not take the record in time, tried alone three times; others were taken.",
}
"""Why a record is in the dead letters; the message gives the place."""

TASK_REFUSAL_CODES = {
    "unknown_task_type": "The worker's catalogue doesn't have this task type.",
    "bad_parameters": "The parameters don't fit the schema that the catalogue has for this task type.",
    "device_busy": "The device runs another task.",
    "unknown_device": "The worker doesn't have this device, or it has failed.",
    "out_of_memory": "The task's reservation does not fit next to what runs.",
    "too_many_tasks": "The worker runs as many processes as it may.",
    "credential_missing": "The worker's host doesn't have a credential that an input needs.",
    "secret_not_allowed": "The catalogue doesn't let the parameters of this task type name this secret.",
    "service_expected": "The worker's catalogue has this task type as a service, and the task is none.",
    "not_a_service": "The task is a service, and the worker's catalogue has its type as another kind.",
    "journal_unwritable": "The worker can't write its journal; the message says why.",
}
"""Why a worker refuses a task that was assigned to it; the scheduler places it again."""

ARTIFACT_CODES = {
    "artifact_changed": "The file changed while it was saved.",
    "artifact_damaged": "What the store and its copies have under a digest has another digest or size.",
    "artifact_missing": "The store and its copies don't have the bytes.",
    "bad_artifact": "A file can't be saved or read as an artifact; the message says why.",
    "cache_unusable": "The cache of the worker's host has no room, or can't be written.",
    "credential_missing": "The host doesn't have the credential of this name.",
    "path_outside_store": "A path leads out of its folder: a link, `..`, or an absolute path.",
    "store_full": "The disk or the quota of the store is used up.",
    "store_missing": "No store for artifacts is set.",
    "store_unreachable": "The store doesn't respond, or refuses access.",
    "unsafe_format": "A file would execute code when it is loaded, so it can't be a model.",
}
"""What can go wrong with artifacts, in the errors of tasks, workers and commands."""

SUMMARY_READ_CODES = {
    "bad_query": "A parameter of a read is unknown, or has a value out of its limits.",
    "bad_method": "The pages are only read: GET and HEAD.",
    "unknown_job": "No task and no directory of this id has summaries.",
    "unknown_tag": "The job has no such tag of this kind; the nearest one is named.",
    "unknown_step": "The tag has no value at this step.",
    "too_many_values": "The answer would have too many values; the message says how to ask for fewer.",
    "unreadable_value": "The stored value is damaged, or of a kind that isn't installed.",
    "query_timeout": "The query took longer than one may, and was cancelled.",
    "still_loading": "The index isn't loaded yet, is busy, or Postgres doesn't respond; try again.",
    "unknown_page": "There is no page of this path.",
    "internal_error": "An error of the service, which is in its log.",
}
"""Why a read of summaries is refused, on the command line and over HTTP."""

REFUSAL_CODES = {
    "duplicate_key": "A JSON object has one key twice.",
    "too_deep": "JSON is nested too deeply.",
    "too_long": "A text, a key or a list is over its limit.",
    "too_costly": "The command would take too long to check; the message says what, and the limit.",
    "not_finite": "A number is NaN, infinite or too large.",
    "out_of_range": "An integer does not fit 64 bits, or in the definition of a pipeline 53.",
    "nul_character": "A text holds a NUL character, which Postgres can't keep.",
    "bad_unicode": "A text holds a lone surrogate.",
    "secret_suspected": "A text looks like a secret, which isn't repeated: name one of the worker's host.",
    "missing_header": "An attribute of the envelope is missing.",
    "bad_identifier": "A name is not an identifier.",
    "bad_digest": "A text is not a SHA-256 digest in hexadecimal digits.",
    "key_mismatch": "The record's key and the attribute `partitionkey` differ.",
    "unsigned": "Commands must be signed here, and this one isn't.",
    "unknown_key": "The key that the signature names is none that the operator knows.",
    "bad_signature": "The signature isn't that of the key it names over this command.",
    "key_revoked": "The key was revoked before the command reached the log; the message says when.",
    "too_many": "The publisher is beyond a limit; the message says from when on to publish it again.",
    "bad_receipt_topic": "The topic for the receipt is none that the operator allows.",
    "unknown_command": "The type is not a command; the message lists the known ones.",
    "unknown_version": "The command is known in another version only.",
    "unknown_field": "A field is not part of the command; the nearest known one is named.",
    "missing_field": "A field that must be there is missing.",
    "wrong_type": "A value has another JSON type than expected; nothing is converted.",
    "unknown_value": "A value is none of those that are allowed.",
    "bad_length": "A text, list or object has too few or too many items.",
    "bad_search_space": "A parameter's range is empty or impossible, or the tuner can't search it.",
    "unknown_tuner": "No tuner has this name.",
    "unknown_assessor": "No assessor has this name.",
    "bad_objectives": "The objectives of a search don't go with each other, or with the rest of it.",
    "bad_option": "A tuner or assessor doesn't have this option, or not with this value.",
    "unknown_task_type": "No worker's catalogue has this task type.",
    "unknown_device": "No worker has the device that is asked for, or that is to be drained or resumed.",
    "unknown_credential": "No worker's host has a credential of this name.",
    "service_expected": "The catalogues have the task type as a service, and the task is none.",
    "not_a_service": "The task is a service, and the catalogues have its type as another kind.",
    "bad_service": "A service has something that only tasks that end can have, or is a step of a pipeline.",
    "bad_memory": "A text is not an amount of memory.",
    "bad_resources": "What is asked for contradicts itself.",
    "duplicate_task": "Two tasks of a group have one name.",
    "already_exists": "The stream is taken, such as by a search, or the model has these bytes.",
    "stream_parked": "A record of the stream needs a newer release; nothing is decided about it until then.",
    "not_parked": "The record did not park the stream, so it can't be skipped.",
    "key_missing": "The key of the stream is missing, so no record of it can be read, or skipped.",
    "not_encrypted": "The stream is not encrypted: its events could not be made unreadable.",
    "not_over": "Something of the stream runs, or may begin again, so it can't be forgotten.",
    "parent_not_over": "Another stream has asked for this one, and is not over, so it can't be forgotten.",
    "stream_forgotten": "The stream was forgotten: it takes no more commands.",
    "unknown_stream": "Nothing has begun in this stream.",
    "unknown_search": "There is no search on this stream.",
    "unknown_batch": "There is no batch on this stream.",
    "unknown_model": "There is no model on this stream.",
    "unknown_summary": "There is no summary job on this stream.",
    "unknown_dataset": "There is no dataset on this stream.",
    "unknown_summary_file": "The summary job has no such file.",
    "unknown_incremental_job": "There is no job of incremental learning on this stream.",
    "bad_counts": "More hard examples than inferences are reported.",
    "folder_model": "The model is a folder, and the job copies its models to where one file is read.",
    "bad_stage": "A stage of a job needs either a task type, or a kind with its spec.",
    "reserved_name": "A job gives its tasks a parameter or an input of this name itself.",
    "place_in_use": "Another job writes to the file or folder, or it is the dataset of this one.",
    "wrong_stage": "The job is in another stage than the one that is asked for, or that has begun.",
    "paused": "The job is paused: it begins no stage until it is resumed.",
    "no_samples": "The job has no sample for the stage that is asked for.",
    "already_decided": "Whether the model of the round is deployed is decided already.",
    "no_open_gate": "No deployment waits for an approval.",
    "never_live": "The version was never live in the job; the message says which ones were.",
    "update_in_progress": "The model of a round is being deployed; that has to end first.",
    "too_many_services": "As many services outside of Trackside have reported to the job as may.",
    "unknown_pipeline_version": "The pipeline has no version of this number; the message says which it has.",
    "unknown_schedule": "The pipeline has no schedule of this name.",
    "bad_cron": "A text is not a cron expression, or one that never comes.",
    "empty_window": "A daily window of a trigger begins and ends at the same time.",
    "schedule_busy": "A run of the schedule has not ended, and it has one run at a time.",
    "schedule_loop": "A run of the schedule has led to what it waits for.",
    "unreachable_bounds": "No value is over the one bound of a schedule and under the other.",
    "too_many_watches": "Schedules wait for as many things of tasks of the stream as may be.",
    "too_many_schedules": "The pipeline has as many schedules as it may.",
    "too_many_runs": "As many runs of the pipeline wait for their turn as may.",
    "bad_model_version": "Not the name of a version of a model, such as digits@1.",
    "unknown_model_version": "The model has no version of this number; the message says which it has.",
    "too_many_versions": "The model or the pipeline has as many versions as it may.",
    "unsafe_format": "What reads this format executes code of the file, as it does for pickles.",
    "wrong_source": "The artifact of a version and the task that saved it don't go with each other.",
    "unknown_kind": "No child can be of this kind; the message lists the known ones.",
    "unknown_task": "The batch, or the stream, has no such task.",
    "task_over": "The task has ended, or is stopping: it takes no instructions.",
    "artifact_in_use": "A task that has not ended still needs the artifact.",
    "bad_url": "A URL is not of a kind that can be used here; the message has those that can.",
    "credentials_in_url": "A URL has a user, a password or a signature in it, which isn't repeated.",
    "unknown_trial": "The search has no such trial.",
    "no_more_trials": "The search has all its trials, or its tuner has nothing left; the message says which.",
    "is_stopping": "The search or run is being stopped.",
    "bad_parameters": "Parameters don't fit: a search's space, or the schemas of a pipeline or gate.",
    "bad_step": "A step has too much or too little for a task, a stream or a gate.",
    "bad_step_name": "A step's name has a dot, or is one that references use.",
    "duplicate_step": "Two steps of a pipeline have one name.",
    "unknown_step": "The pipeline has no such step; the nearest one is named.",
    "pipeline_cycle": "Steps wait for each other, or one for itself; the message names each.",
    "bad_reference": "A reference is not closed, or names nothing that a step can have.",
    "unknown_parameter": "The pipeline, or the form of a gate, has no such parameter.",
    "missing_parameter": "A parameter without a default has no value.",
    "bad_schema": "What should be a JSON Schema is none, or one that can take too long to check.",
    "bad_expression": "An expression can't be read, or has what expressions don't have.",
    "expression_too_long": "An expression has more than 1,000 characters.",
    "expression_too_deep": "An expression has more than 30 levels.",
    "too_many_items": "A step has more than 10,000 items.",
    "unknown_pipeline": "There is no pipeline on this stream.",
    "unknown_run": "There is no run on this stream, or the pipeline has had none of this number.",
    "run_not_over": "The run is not over, so it can't be continued or archived.",
    "run_archived": "The run is archived, so it can't be continued.",
    "step_begun": "The step has begun already.",
    "step_not_open": "The step is not open: it has not begun, or has ended.",
    "not_a_gate": "The step is not a gate.",
    "gate_not_open": "The gate is not open yet.",
    "gate_decided": "The gate was decided before.",
    "nothing_failed": "No step has failed that could be retried.",
    "unknown_index": "The step has no such item, or it is not in the state that the command needs.",
    "already_terminal": "What is to be stopped or changed is over.",
    "idempotency_conflict": "The command id was used before, with another body.",
}
"""Why a command is refused; besides these, a number beyond its bounds gives `<field>_range`."""

JOB_SEARCH_CODES = {
    "bad_cursor": "A cursor is damaged, or of a search with another condition or order.",
    "bad_filter": "A condition can't be parsed; the message has the column, and what was expected there.",
    "bad_unicode": "A text holds a lone surrogate.",
    "filter_too_deep": "A condition has more than 30 levels.",
    "filter_too_long": "A condition has more than 4,000 characters, 100 comparisons or 10 metrics.",
    "limit_range": "A page has 1 to 999 jobs.",
    "out_of_range": "A number doesn't fit a float of 64 bits.",
    "search_too_slow": "Postgres took longer than a search may; the message has what to do.",
    "too_long": "More columns are asked for than may be.",
    "unknown_field": "A job has no such field, or a metric no such statistic; the nearest one is named.",
    "unknown_metric": "No job has a metric with this tag; the nearest one is named.",
    "unknown_parameter": "No job has a parameter of this name; the nearest one is named.",
    "unknown_value": "A field never has this value; the nearest one is named.",
    "wrong_type": "A value has another type than the field it is compared with.",
}
"""Why a search over jobs is refused."""


class Problem(BaseModel):
    """What is wrong with an input: code, JSON path (`$` is the body) and message.

    `retry_at_ms` is from when on the same may be accepted, in ms since 1970; none if no time is known.
    """

    model_config = ConfigDict(frozen=True)
    code: str
    path: str = "$"
    message: str
    retry_at_ms: int | None = Field(None, exclude_if=is_absent)


def limit_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Returns the problems that a message lists: each once, within the limits of number and text."""
    listed: list[Problem] = []
    size = 0
    for problem in dict.fromkeys(problems):
        path, message = _shortened(problem.path), _shortened(problem.message)
        size += len(problem.code) + len(path) + len(message)
        if len(listed) == MAX_PROBLEMS or size > MAX_PROBLEMS_TEXT:
            break
        listed.append(problem.model_copy(update={"path": path, "message": message}))
    return listed


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_PROBLEM_TEXT else text[: MAX_PROBLEM_TEXT - 3] + "..."


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns a hint "; did you mean x?" for a mistyped name, or nothing."""
    close = closest(name, known)
    return "" if close is None else f"; did you mean {close!r}?"


def closest(name: str, known: Iterable[str], similar: float = SIMILAR) -> str | None:
    """Returns the known name that a mistyped one is most similar to; None if none is similar enough."""
    from rapidfuzz import fuzz, process  # here, as names are seldom mistyped, and each process imports this

    found = process.extractOne(name[:200], sorted(known), scorer=fuzz.ratio, score_cutoff=similar)
    return None if found is None else found[0]


def json_path(location: Iterable[int | str]) -> str:
    """Writes a location as a JSON path: `$.space.lr.low`, `$.values[2]`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


def field_names(kind: type[BaseModel]) -> set[str]:
    """Returns the names of all fields of a model and of the models within it, for hints."""
    names: set[str] = set()
    waiting: list[Any] = [kind]
    seen: set[type[BaseModel]] = set()  # a model may be within itself
    while waiting:
        annotation = waiting.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in seen:
            seen.add(annotation)
            names |= set(annotation.model_fields)
            waiting.extend(field.annotation for field in annotation.model_fields.values())
        waiting.extend(get_args(annotation))
    return names


def problem_of(error: ValidationError, fields: Iterable[str], body: Json) -> Problem:
    """Turns the first error of a pydantic validation into a problem with one of our codes.

    `fields` are the known names, for the hint behind an unknown one.
    """
    return problems_of(error, fields, body)[0]


def problems_of(error: ValidationError, fields: Iterable[str], body: Json) -> tuple[Problem, ...]:
    """Turns the errors of a pydantic validation into problems with one of our codes each.

    A value that fits no member of a union has an error for each: the first one is returned.
    """
    known = list(fields)
    found: list[Problem] = []
    locations: list[tuple[int | str, ...]] = []
    for detail in error.errors(include_url=False):
        location = _within(detail["loc"], body, detail["type"] == "missing")
        if not any(_overlap(location, other) for other in locations):
            locations.append(location)
            found.append(_one(detail, known, location))
        if len(found) == MAX_PROBLEMS:
            break
    return tuple(found)


def _overlap(one: tuple[int | str, ...], other: tuple[int | str, ...]) -> bool:
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _within(location: tuple[int | str, ...], body: Any, missing: bool) -> tuple[int | str, ...]:
    """Leaves out the steps that pydantic adds for the members of a union and the body doesn't have."""
    kept: list[int | str] = []
    for at, part in enumerate(location):
        if isinstance(body, dict) and part not in body and _NNI.get(part) in body:
            part = _NNI[part]
        found, body = _step(body, part)
        if found or (missing and at == len(location) - 1):
            kept.append(part)
    return tuple(kept)


_NNI: dict[int | str, str] = {"values": "_value", "type": "_type"}
_RANGE = {
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
    "finite_number",
}
_SIZE = {"too_short", "too_long", "string_too_short", "string_too_long"}


def _step(body: Any, part: int | str) -> tuple[bool, Any]:
    if isinstance(body, dict) and part in body:
        return True, body[part]
    if isinstance(body, list) and isinstance(part, int) and part < len(body):
        return True, body[part]
    return False, body


def _one(detail: ErrorDetails, fields: Collection[str], location: tuple[int | str, ...]) -> Problem:
    kind, message = detail["type"], detail["msg"]
    path = json_path(location)
    name = str(location[-1]) if location else "$"
    if kind == "extra_forbidden":
        hint = nni_hint(name) or step_hint(name, fields) or nearest(name, fields)
        return Problem(code="unknown_field", path=path, message=f"unknown field {name!r}{hint}")
    if kind == "missing":
        return Problem(code="missing_field", path=path, message=f"missing field {name!r}")
    if kind in _RANGE:
        return Problem(code=f"{name}_range", path=path, message=f"{message}, got {detail['input']!r}")
    if kind in _SIZE:
        return Problem(code="bad_length", path=path, message=message)
    if kind == "string_pattern_mismatch":  # the only texts with a pattern are digests
        message = "not a SHA-256 digest: expected 64 hexadecimal digits, in lower case"
        return Problem(code="bad_digest", path=path, message=message)
    if kind in ("union_tag_invalid", "literal_error", "enum", "union_tag_not_found"):
        return Problem(code="unknown_value", path=path, message=message)
    if kind.endswith(("_type", "_parsing", "_from_float")):
        got = type(detail["input"]).__name__
        return Problem(code="wrong_type", path=path, message=f"{message}, got {got}")
    return Problem(code=kind, path=path, message=message)
