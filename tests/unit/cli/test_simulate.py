import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from trackside.cli.app import call
from trackside.simulation import run as simulation
from trackside.simulation.config import SimulationConfig, SimulationResult
from trackside.simulation.virtual import segment_store

FLEET = ["simulate", "--workers", "2", "--devices", "3", "--trials", "8", "--seconds", "1:2"]


def test_a_fleet_is_simulated(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_store, "UNPACKED_ENTRIES", 10)
    assert call([*FLEET, "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (said["trials"], said["devices"], said["concurrency"], said["wrong"]) == (8, 6, 6, [])
    figures = said["figures"]
    assert figures["trials_per_s"] == pytest.approx(8 / figures["makespan_s"])
    assert 0.1 < figures["busy"] <= 1
    assert 0 < figures["queue_p50_s"] <= figures["queue_p99_s"] < 1
    assert {"events", "metrics", "device", "heartbeats"} <= figures["growth"].keys()
    assert figures["growth"]["events"]["records"] > 8 * 8


@pytest.mark.thorough
def test_the_figures_of_a_fleet_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(FLEET) == 0
    said = capsys.readouterr().out
    assert "8 trials on 2 x 3 devices, 6 at once" in said
    assert "nothing wrong" in said
    assert max(map(len, said.splitlines())) <= 100


@pytest.mark.thorough
def test_seeds_are_simulated_each_on_its_own_and_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for asked in (["--seed", "4"], ["--seed", "5"], ["--from", "4", "--seeds", "2"]):
        assert call(["simulate", *asked, "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert [found["seeds"] for found in said] == [1, 1, 2]
    assert all(found["failed"] == {} for found in said)
    for name in ("events", "attempts", "overtaken"):
        assert said[0][name] + said[1][name] == said[2][name]
    assert sum(said[2]["faults"].values()) >= 10


def test_a_seed_that_goes_wrong_is_told_with_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def swept(seeds: Iterable[int], config: SimulationConfig) -> Iterator[SimulationResult]:
        for seed in seeds:
            again = simulation.Simulation(seed, config).result.rerun_command
            yield SimulationResult(seed, ["trial 3 ended twice"] if seed == 12 else [], rerun_command=again)

    monkeypatch.setattr(simulation, "sweep", swept)
    assert call(["simulate", "--from", "10", "--seeds", "5"]) == 1
    written = capsys.readouterr()
    assert "1 wrong" in written.out
    assert "seed 12: trial 3 ended twice\nseed 12: again: trackside simulate --seed 12\n" in written.err


@pytest.mark.thorough
def test_batches_are_simulated_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["simulate", "--seed", "4", "--kind", "batch"]) == 0
    assert "1 batches, " in capsys.readouterr().out
