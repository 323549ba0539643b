"""Runs trials that do nothing with Optuna, in two processes that share a study in Postgres: `... NUMBER`.

Runs in the environment of the peers; TRACKSIDE_BENCH_STORAGE is the address of the storage. It writes one
JSON object a line, `began` and `ended`, and waits after each until a line comes in.
"""

import json
import multiprocessing
import os
import sys
import time
from multiprocessing.synchronize import Barrier

SLOTS = 2
WARM_UP = 10
STUDY = "noop"
STORAGE = "TRACKSIDE_BENCH_STORAGE"


def report(**fields: object) -> None:
    """Writes a line, and waits for one."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()


def work(trials: int, seed: int, ready: Barrier, done: Barrier) -> None:
    """Runs half of the trials."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.RandomSampler(seed=seed)
    study = optuna.load_study(study_name=STUDY, storage=os.environ[STORAGE], sampler=sampler)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=WARM_UP)
    ready.wait()
    ready.wait()
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=trials)
    done.wait()
    done.wait()


def main(trials: int) -> None:
    """Creates the study, and runs the trials in two processes."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(study_name=STUDY, storage=os.environ[STORAGE])
    context = multiprocessing.get_context("spawn")
    ready, done = context.Barrier(SLOTS + 1), context.Barrier(SLOTS + 1)
    workers = [
        context.Process(target=work, args=(trials // SLOTS, seed, ready, done), daemon=True)
        for seed in range(SLOTS)
    ]
    for worker in workers:
        worker.start()
    ready.wait()
    report(at="began")
    ready.wait()
    began_s = time.monotonic()
    done.wait()
    seconds = time.monotonic() - began_s
    found = len(study.get_trials(deepcopy=False)) - SLOTS * WARM_UP
    report(at="ended", trials=found, seconds=seconds)
    done.wait()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main(int(sys.argv[1]))
