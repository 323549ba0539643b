import re

from trackside.cli.render.history_chart import BEST, COUNTED, STOPPED, best_so_far, history_svg, sparkline
from trackside.domain.display.report import HistoryPoint, ReportSection

VALUES = [(0, 0.5, True), (1, 0.9, False), (2, 0.7, True), (3, 0.6, True), (4, 0.95, True)]


def section(values: list[tuple[int, float, bool]] = VALUES, direction: str = "maximize") -> ReportSection:
    history = [HistoryPoint(*value) for value in values]
    return ReportSection("trials", "DONE", [], history=history, direction=direction)


def test_the_best_value_so_far_is_that_of_trials_that_count() -> None:
    history = section().history
    assert best_so_far(history, maximize=True) == [(0, 0.5), (2, 0.7), (3, 0.7), (4, 0.95)]
    assert best_so_far(history, maximize=False) == [(0, 0.5), (2, 0.5), (3, 0.5), (4, 0.5)]


def test_each_trial_has_a_dot_and_values_far_worse_than_most_are_drawn_at_the_edge() -> None:
    drawn = history_svg(section())
    dots = re.findall(rf'width="5.0" height="5.0" fill="({COUNTED}|{STOPPED})"', drawn)
    assert dots == [COUNTED, STOPPED, COUNTED, COUNTED, COUNTED]
    [line] = re.findall(rf'points="([^"]+)" fill="none" stroke="{BEST}"', drawn)
    heights = [float(point.split(",")[1]) for point in line.split()]
    assert heights == sorted(heights, reverse=True), "the best value only rises"
    assert "stopped early" in drawn and "higher is better" in drawn
    good = [(number, 1.0 + number / 100, True) for number in range(50)]
    drawn = history_svg(section([*good, (50, 1e9, True)], "minimize"))
    assert "1e+09" not in drawn and "1.2" in drawn


def test_a_line_of_blocks_is_no_wider_than_the_screen_and_equal_or_single_values_are_no_failure() -> None:
    many = [(number, float(number), True) for number in range(1_000)]
    line = sparkline(section(many))
    assert len(line) == 60 and line[0] == "▁" and line[-1] == "█"
    assert sparkline(section()) == "▁▄▄█"
    assert history_svg(section([(0, 1.0, True)])) == ""
    assert "<svg" in history_svg(section([(0, 1.0, True), (1, 1.0, True)]))
    assert "<svg" in history_svg(section([(0, 1.0, False), (1, 2.0, False)]))
    assert sparkline(section([(0, 1.0, True), (1, 1.0, True)])) == "▁▁"
    assert sparkline(section([(0, 1.0, True)])) == ""
