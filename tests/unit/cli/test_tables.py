from rich.console import Console

from trackside.cli.render.screen import table
from trackside.domain.display.text import Column

NUMBERS = [Column(name, right=True, keep=True) for name in ("round", "train", "took")]
COLUMNS = [*NUMBERS[:2], Column("result", keep=True), NUMBERS[2], Column("why", optional=True)]
ROWS = [[1, 48, "deployed", "1 min 04 s", "-"], [2, 80, "kept", "22 s", "mean(recall_delta) > 0: i..."]]


def printed(width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(table(COLUMNS, ROWS, width=width))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_neither_a_heading_nor_a_number_with_its_unit_is_broken_and_what_may_be_is_left_out() -> None:
    for width in range(36, 100):
        lines = printed(width)
        assert lines[0].split()[:4] == ["round", "train", "result", "took"], width
        assert len(lines) == 3 and "1 min 04 s" in lines[1], width
    assert "why" in printed(100)[0]
    assert "why" not in printed(60)[0]


def test_a_long_text_is_cut_short_and_what_names_a_row_is_not() -> None:
    columns = [Column("dataset", keep=True), Column("reason"), Column("format")]
    console = Console(width=60)
    with console.capture() as captured:
        console.print(table(columns, [["camera-7", "bad line " * 20, "jsonl"]], width=60))
    (_, row) = captured.get().splitlines()
    assert row.startswith("camera-7  bad line") and row.rstrip().endswith("…  jsonl")
