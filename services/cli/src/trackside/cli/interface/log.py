"""Commands about the log: `events`, `schemas`, `verify-log`, `simulate`."""

from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.interface.options import JsonOption, StreamArgument


def events(
    stream_id: StreamArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new events as they are written.")
    ] = False,
    from_offset: Annotated[
        int, typer.Option("--from", min=0, metavar="OFFSET", help="Offset of the first event to print.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """List the events of a search or a batch in the order of the log; with --json one a line.

    An event that had no effect says why: duplicate (the same event was there before), overtaken (the state
    did not permit it, as another decider was first), void (its writer may not write it), forged (its
    signature does not count) or parked (its stream waited, for a newer release or its key).

    \b
    Examples:
      trackside events digits-1
      trackside events digits-1 --from 120 --json | jq .type
      trackside events digits-1 --follow
    """
    from trackside.cli.commands import watch

    watch.events(stream_id, from_offset, follow=follow, as_json=as_json)


def schemas(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder to write into; it is created if it is missing.")
    ],
) -> None:
    """Write the JSON Schema of every message and the AsyncAPI document into a folder.

    \b
    Examples:
      trackside schemas docs/schemas
    """
    from trackside.cli.commands import watch

    watch.schemas(folder)


def verify_log(
    stream: Annotated[
        str, typer.Argument(metavar="STREAM", help="Id of a search or batch; without it the whole log.")
    ] = "",
    postgres: Annotated[
        bool, typer.Option("--postgres", help="Compare snapshots and read models with the log, too.")
    ] = False,
    store: Annotated[
        bool, typer.Option("--store", help="Look up each artifact that is not forgotten in the store, too.")
    ] = False,
    digests: Annotated[
        bool, typer.Option("--digests", help="With --store: read all of them, and compare their digests.")
    ] = False,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="FILE", help="Check who signed each event, by this list of keys."),
    ] = None,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete", help="Count what is open as violated: all work is done, no service is off."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the invariants of the log: no event is lost, none has effect twice, each has a cause that exists.

    Prints a table of the invariants and how much of the log each was checked on. Each violation is printed
    with its topic, partition and offset, and so are records that no service can decode. The log may be in use
    meanwhile: what a longer log may still set right, such as a command without an answer, is open, and no
    violation. With STREAM, invariants between streams, such as one task at a time on a device, are checked
    only within that stream.

    With --store each artifact that a stream refers to and has not forgotten is looked up in the store, by its
    size, or with --digests by reading it, and so is each image and other large value of its summaries; copies
    of the store do not count. Let no `trackside artifacts gc --delete` run meanwhile.

    With --keys the signature of each event that has an effect is checked with the keys of a file, which
    `trackside setup keys` writes as keys.json, not with those that the log names. Keys that the log trusts
    and the file does not list are named.

    Exit 0 if all invariants hold, 1 if one is violated, 2 for a wrong option or if there is no such stream,
    3 if the log (with --postgres the read models) can't be read: nothing is verified then.

    \b
    Examples:
      trackside verify-log
      trackside verify-log digits-1
      trackside verify-log --postgres --json
      trackside verify-log --complete
      trackside verify-log --store --digests
    """
    from trackside.cli.commands import verify

    extent = verify.Extent(postgres, store, digests, keys)
    verify.verify_log(stream, extent, complete=complete, as_json=as_json)


SeedOption = Annotated[
    int | None,
    typer.Option("--seed", min=0, metavar="SEED", help="Simulate the one search with faults of this seed."),
]
KindOption = Annotated[
    str,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="With --seeds or --seed: search, batch (of 30 tasks), training (which resumes), asking (for "
        "further trials), services, pipeline or rounds.",
    ),
]
SharedGpuOption = Annotated[
    bool,
    typer.Option("--shared-gpu", help="With --seeds or --seed: all workers run on one host with one GPU."),
]
ForgerOption = Annotated[
    bool,
    typer.Option("--forger", help="With --seeds or --seed: events are signed, and a forger writes some."),
]


def simulate(
    workers: Annotated[
        int, typer.Option("--workers", min=1, max=10_000, metavar="N", help="Number of workers.")
    ] = 50,
    devices: Annotated[
        int, typer.Option("--devices", min=1, max=64, metavar="N", help="Number of devices of each worker.")
    ] = 8,
    trials: Annotated[
        int, typer.Option("--trials", min=1, max=1_000_000, metavar="N", help="Number of trials.")
    ] = 4000,
    concurrency: Annotated[
        int,
        typer.Option(
            "--concurrency", min=0, max=10_000, metavar="N", help="Trials at once; without it one a device."
        ),
    ] = 0,
    seconds: Annotated[
        str,
        typer.Option("--seconds", metavar="LOW:HIGH", help="Range of a trial's duration, in seconds."),
    ] = "30:90",
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", min=0, metavar="N", help="Simulate N searches of 30 trials with faults instead."
        ),
    ] = 0,
    first: Annotated[int, typer.Option("--from", min=0, metavar="SEED", help="First seed of --seeds.")] = 0,
    seed: SeedOption = None,
    kind: KindOption = "search",
    shared_gpu: SharedGpuOption = False,
    forger: ForgerOption = False,
    as_json: JsonOption = False,
) -> None:
    """Simulate a search on a large fleet in virtual time: throughput, queue times, growth of the log.

    Needs no stack. Dispatcher, scheduler and reactor are those that run in production; log, network and
    workers are models. The log is verified at the end. With --seeds or --seed searches are simulated under
    faults instead: services are killed and paused, clocks jump, messages are lost, repeated and delayed. A
    seed always gives the same run.

    Exit 1 if an invariant is violated; the violation and the command that repeats the run are printed.

    \b
    Examples:
      trackside simulate
      trackside simulate --workers 1000 --devices 8 --trials 100000
      trackside simulate --seeds 2000
      trackside simulate --seed 1234 --kind batch
    """
    from trackside.cli.commands import simulate

    if seed is not None:
        simulate.simulate_faults(kind, seed, 1, as_json, shared_gpu, forger)
    elif seeds:
        simulate.simulate_faults(kind, first, seeds, as_json, shared_gpu, forger)
    else:
        at_once = concurrency or min(workers * devices, simulate.MAX_CONCURRENCY, trials)
        config = simulate.fleet_config(trials, at_once, workers, devices, seconds)
        simulate.simulate_fleet(kind, config, as_json)
