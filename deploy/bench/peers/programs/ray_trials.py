"""Runs trials that do nothing with Ray Tune, two at a time: `ray_trials.py NUMBER reused|each`.

Runs in the environment of the peers. It writes one JSON object a line: `began` at the end of the first trial,
for which it waits until a line comes in, and `ended` at the end of the last one, likewise.
"""

import json
import os
import sys
import tempfile
import time

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
}
SLOTS = 2
WARM_UP = 4
OBJECTS_BYTES = 100 * 1024 * 1024


def report(**fields: object) -> None:
    """Writes a line, and waits for one."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()


def main(trials: int, reuse: bool) -> None:
    """Runs a few trials that are not counted, and then the others."""
    import ray
    from ray import tune

    class Nothing(tune.Trainable):  # type: ignore[misc]
        """A trial that returns its parameter."""

        def step(self) -> dict[str, object]:
            return {"value": self.config["x"], "done": True}

        def reset_config(self, new_config: dict[str, object]) -> bool:
            self.config = new_config
            return True

        def save_checkpoint(self, checkpoint_dir: str) -> None:
            return None

        def load_checkpoint(self, checkpoint: object) -> None:
            return None

    class Clock(tune.Callback):  # type: ignore[misc]
        """Counts the trials that end after the first one, and measures how long they take."""

        def __init__(self) -> None:
            self.ended = 0
            self.began_s = self.last_s = 0.0

        def on_trial_complete(self, **_: object) -> None:
            if self.ended == 0:
                report(at="began")
                self.began_s = time.monotonic()
            self.ended += 1
            self.last_s = time.monotonic()
            if self.ended == trials:
                report(at="ended", trials=trials - 1, seconds=self.last_s - self.began_s)

    def run(count: int, callbacks: list[object], folder: str) -> None:
        results = tune.Tuner(
            tune.with_resources(Nothing, {"cpu": 1}),
            param_space={"x": tune.uniform(0, 1)},
            tune_config=tune.TuneConfig(num_samples=count, max_concurrent_trials=SLOTS, reuse_actors=reuse),
            run_config=tune.RunConfig(storage_path=folder, verbose=0, callbacks=callbacks),
        ).fit()
        if len(results) != count or results.num_errors:
            raise SystemExit(f"{results.num_errors} of {len(results)} trials failed; {count} were wanted")

    with tempfile.TemporaryDirectory(prefix="trackside-ray-") as folder:
        ray.init(
            num_cpus=SLOTS, include_dashboard=False, object_store_memory=OBJECTS_BYTES, log_to_driver=False,
            logging_level="error", _temp_dir=folder,
        )  # fmt: skip
        run(WARM_UP, [], f"{folder}/warm-up")
        run(trials, [Clock()], f"{folder}/trials")
        ray.shutdown()


if __name__ == "__main__":
    os.environ.update(SETTINGS)
    main(int(sys.argv[1]), sys.argv[2] == "reused")
