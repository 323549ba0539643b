import json
from xml.etree import ElementTree

from tests.unit.aggregates.run.given import RunLog, started, step
from trackside.cli.commands.graph import drawn_steps
from trackside.cli.render.run_layout import DrawnStep, connected, layers_of
from trackside.cli.render.run_pictures import flow_svg, graph_svg, page, plotly_figure
from trackside.contracts.tasks.tasks import AttemptEnd

SCRIPT = "<script>alert(1)</script>"


def eventful() -> RunLog:
    """Returns the log of a run with steps in most states, and one that stands alone."""
    log = started(
        step("data", parameters={"note": "${pipeline.note}", "rows": 3}),
        step("train", "data", parameters={"from": "${data.result.path}"}),
        step("check", "data"),
        step("late", "train", "check"),
        step("alone", parameters={"long": "x" * 30}),
        parameters={"note": SCRIPT},
        schemas={"note": {"type": "string"}},
    )
    log.finish("data", {"path": "${not.a.reference}"})
    log.place("train")
    log.finish("check", end=AttemptEnd.TIMED_OUT_RUN)
    return log


def drawn() -> list[DrawnStep]:
    return drawn_steps(eventful().run)


def named(layers: list[list[DrawnStep]]) -> list[list[str]]:
    return [[step.name for step in layer] for layer in layers]


def test_a_step_is_in_the_layer_after_the_last_that_it_needs_and_drawn_apart_if_it_stands_alone() -> None:
    assert named(layers_of(drawn())) == [["data", "alone"], ["train", "check"], ["late"]]
    diamond = [DrawnStep(name, "", "", "", needs) for name, needs in (("a", ""), ("b", "a"), ("c", "ab"))]
    assert named(layers_of(diamond)) == [["a"], ["b"], ["c"]]
    assert layers_of([]) == []
    # P27: as markers in a second row, a quarter as high.
    joined, alone = connected(drawn())
    assert named([joined, alone]) == [["data", "train", "check", "late"], ["alone"]]
    sankey, markers = plotly_figure(drawn(), "r")["data"]
    assert sankey["domain"]["y"] == [0.25, 1]
    assert sankey["node"]["color"] == ["blue", "green", "red", "lightsteelblue"]
    assert (sankey["link"]["source"], sankey["link"]["target"]) == ([0, 0, 1, 2], [1, 2, 3, 3])
    assert markers["text"] == [f"alone<br>long: {'x' * 24} ..."]
    only = [DrawnStep("a", "", "", "blue")]
    assert [part["type"] for part in plotly_figure(only, "r")["data"]] == ["scatter"]


def test_colours_are_those_of_states_and_labels_have_a_line_of_24_characters_for_each_parameter() -> None:
    """P27: done blue, failed red, running green, else lightsteelblue."""
    colors = ["blue", "green", "red", "lightsteelblue", "lightsteelblue"]
    assert [step.color for step in drawn()] == colors
    # P27; a value with a reference in it stays text.
    lines = {step.name: step.lines for step in drawn()}
    assert lines["alone"] == ["alone", f"long: {'x' * 24} ..."]
    assert lines["data"] == ["data", "note: <script>alert(1)</script ...", "rows: 3"]
    assert lines["train"] == ["train", "from: ${not.a.reference}"]


def test_parameters_that_look_like_html_are_texts() -> None:
    """A regression of ClearML's plot: raw parameters in HTML labels."""
    hostile = [*drawn(), DrawnStep(SCRIPT, SCRIPT, SCRIPT, "red", (), {SCRIPT: SCRIPT}, task=SCRIPT)]
    figure = json.dumps(plotly_figure(hostile, SCRIPT))
    pictures = (graph_svg(hostile, SCRIPT), flow_svg(hostile, SCRIPT), page(hostile, SCRIPT, SCRIPT))
    for text in (*pictures, figure):
        assert "<script" not in text.lower()
    assert "&lt;script&gt;" in figure


def test_pictures_are_whole_documents_with_the_state_of_each_step_that_load_nothing() -> None:
    for text in (graph_svg(drawn(), "r"), flow_svg(drawn(), "r")):
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    found = page(drawn(), "r", "RUNNING")
    assert "src=" not in found and "href=" not in found and "@import" not in found
    # P37.
    texts = [element.text for element in ElementTree.fromstring(graph_svg(drawn(), "r")).iter()]
    assert all(each.name in texts and each.state in texts for each in drawn())
