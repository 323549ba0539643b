"""Fields of steps as other systems have them, and what they are here: for hints in refusals."""

from collections.abc import Collection

STEP_NAMES = {
    "after": "needs",
    "dependencies": "needs",
    "depends": "needs",
    "depends_on": "needs",
    "dependsOn": "needs",
    "parents": "needs",
    "requires": "needs",
    "upstream": "needs",
    "condition": "when",
    "if": "when",
    "for_each": "each",
    "foreach": "each",
    "with_items": "each",
    "withItems": "each",
    "parameter_override": "parameters",
    "execution_queue": "queue",
    "time_limit": "run_timeout_s",
}


def step_hint(name: str, known: Collection[str]) -> str:
    """Returns a hint "; did you mean 'needs'?" for a field of a step elsewhere, or nothing.

    `known` are the fields that there are, so that only these are named.
    """
    ours = STEP_NAMES.get(name)
    return f"; did you mean {ours!r}?" if ours in known else ""
