"""The page of some selected experiments: stops or archives all of them, with an answer for each."""

from dataclasses import dataclass, replace

from trackside.console.commands.actions import ARCHIVE, STOP, actions_of
from trackside.console.commands.forms import Form
from trackside.console.web.page import BadQuery, PageRequest, Shown
from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.reads import row_of_stream

MOST = 50


@dataclass(frozen=True, slots=True)
class SelectedExperiment:
    """One of the selected: its row, None for an id that there is no experiment of, and what can be done."""

    id: str
    kind: str
    row: ViewRow | None
    stop: Form | None = None
    archive: Form | None = None


async def selected(request: PageRequest) -> Shown:
    """Shows the experiments of the query, each with a form that stops it and one that archives it."""
    ids = list(dict.fromkeys(filter(None, (each.strip() for each in request.query.getlist("id")))))
    if len(ids) > MOST:
        raise BadQuery(f"this address has {len(ids)} ids; expected at most {MOST}: clear some of the boxes")
    found = [await _selected(request, each) for each in ids]
    values = {
        "selected": found,
        "stops": sum(each.stop is not None for each in found),
        "archives": sum(each.archive is not None for each in found),
    }
    title = f"{len(found)} selected"
    return Shown("selected.html", title, values, frozenset(ids), section="experiments")


async def _selected(request: PageRequest, stream_id: str) -> SelectedExperiment:
    found = await row_of_stream(request.models, stream_id)
    if found is None:
        return SelectedExperiment(stream_id, "", None)
    view, row = found
    labels = await request.models.row("labels", stream_id)
    forms = actions_of(view.kind, stream_id, {**row, "stream_labels": labels})
    by_label = {form.label: replace(form, inputs=(), confirm="") for form in forms}
    shown = {**row, "is_archived": labels is not None and labels["archived"]}
    return SelectedExperiment(stream_id, view.kind, shown, by_label.get(STOP), by_label.get(ARCHIVE))
