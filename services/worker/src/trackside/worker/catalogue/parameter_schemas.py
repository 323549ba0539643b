"""JSON Schemas of parameters: checks parameters against them. Pure."""

from jsonschema_rs import ValidationError

from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import json_path
from trackside.contracts.envelope.secret_references import references_in, resolve
from trackside.domain.json_schemas import compile_schema, shortened
from trackside.domain.pipelines.value_schemas import SchemaCheck, SchemaCosts

A_SECRET = "(a secret)"
"""The text that a schema sees in the place of a secret."""


def violation(schema: Json, parameters: Json) -> str | None:
    """Returns how parameters violate a schema, as a sentence with path and rule; None if they don't.

    In the place of a reference to a secret there is a text, of which only the type is checked. What the
    check costs is counted first: one that takes too long would hold up the other tasks of the worker.
    """
    too_costly = SchemaCosts().add([SchemaCheck("$", schema, (parameters,))])
    if too_costly is not None:
        return f"{too_costly.path}: {too_costly.message}"
    validator = compile_schema(schema)
    places = {place for place, _ in references_in(parameters)}
    if not places:
        try:
            validator.validate(parameters)
        except ValidationError as found:
            return _sentence(found)
        return None
    for error in validator.iter_errors(resolve(parameters, lambda _: A_SECRET)):
        if error.kind.name == "type" or tuple(error.instance_path) not in places:
            return _sentence(error)
    return None


def _sentence(error: ValidationError) -> str:
    return f"{json_path(error.instance_path)}: {shortened(error.message)} (rule: {error.kind.name})"
