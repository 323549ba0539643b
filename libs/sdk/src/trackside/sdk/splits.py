"""Splits a dataset among the parties of a federated run, unevenly as real data is.

Pure functions: labels in, a list of indices for each part out. Every index is in exactly one part, in rising
order, and the same seed returns the same split.
"""

import math
import random
from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate
from typing import Any

DRAWS = 200
"""How often `dirichlet_uneven` draws until no part is too small."""

Parts = list[list[int]]


def dirichlet(labels: Iterable[Any], parts: int, *, alpha: float, seed: int, min_size: int = 1) -> Parts:
    """Returns parts of equal size (one more or less), each with a mix of labels of its own.

    A part's mix is drawn from Dirichlet(alpha * p), p being the mix of the whole: with a small `alpha` a part
    has few labels, with a large one nearly the mix of the whole. A label that is used up isn't drawn any
    more, so the last parts get the rest. Raises ValueError if a part would have fewer than `min_size`
    indices.

    Source: Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification", 2019, arXiv:1909.06335.
    """
    _check_alpha(alpha)
    draw = random.Random(seed)
    piles = _shuffled_piles(labels, draw)
    total = _check_sizes(piles, parts, min_size)
    concentrations = [alpha * len(pile) / max(1, total) for pile in piles]
    made: Parts = []
    for part in range(parts):
        size = total * (part + 1) // parts - total * part // parts
        weights = _dirichlet(concentrations, draw) if piles else []
        made.append(_taken(piles, weights, size, draw))
    return made


def dirichlet_uneven(
    labels: Iterable[Any], parts: int, *, alpha: float, seed: int, min_size: int = 1
) -> Parts:
    """Returns parts of different sizes: each label is shared out in proportions drawn from Dirichlet(alpha).

    Draws again until every part has `min_size` indices. Raises ValueError if there are too few of them, or
    if 200 draws produced none: then `alpha` is too small for so many parts.

    Source: Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural Networks", 2019,
    arXiv:1905.12022, section 4.
    """
    _check_alpha(alpha)
    draw = random.Random(seed)
    piles = _shuffled_piles(labels, draw)
    _check_sizes(piles, parts, min_size)
    best = -1
    for _ in range(DRAWS):
        made = _shared_out(piles, [_dirichlet([alpha] * parts, draw) for _ in piles], parts)
        smallest = min(len(part) for part in made)
        if smallest >= min_size:
            return [sorted(part) for part in made]
        best = max(best, smallest)
    raise ValueError(
        f"dirichlet_uneven: in {DRAWS} draws with alpha {alpha:g} the smallest of {parts} parts had {best} "
        f"indices at most; expected {min_size}: use a larger alpha, fewer parts, or dirichlet()"
    )


def by_label(
    labels: Iterable[Any], parts: int, *, shards_per_part: int = 2, seed: int, min_size: int = 1
) -> Parts:
    """Returns parts of `shards_per_part` shards of the indices sorted by label, so that each has few labels.

    Shards are of equal size (one more or less) and dealt at random. Raises ValueError if a part would have
    fewer than `min_size` indices, or if there are fewer indices than shards.

    Source: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
    AISTATS 2017, arXiv:1602.05629, section 3.
    """
    if shards_per_part < 1:
        raise ValueError(f"shards_per_part: expected 1 or more, got {shards_per_part}")
    draw = random.Random(seed)
    piles = _shuffled_piles(labels, draw)
    total = _check_sizes(piles, parts, min_size)
    count = parts * shards_per_part
    if total < count:
        raise ValueError(
            f"by_label: {total} indices are too few for {parts} parts of {shards_per_part} shards: "
            f"expected {count} or more"
        )
    in_order = [index for pile in piles for index in pile]
    shards = [in_order[total * at // count : total * (at + 1) // count] for at in range(count)]
    draw.shuffle(shards)
    made = [shards[part::parts] for part in range(parts)]
    found = [sorted(index for shard in dealt for index in shard) for dealt in made]
    smallest = min(len(part) for part in found)
    if smallest < min_size:
        raise ValueError(f"by_label: the smallest part has {smallest} indices, expected {min_size} or more")
    return found


def _check_alpha(alpha: float) -> None:
    if not (math.isfinite(alpha) and alpha > 0):
        raise ValueError(f"alpha: expected a finite number above 0, got {alpha}")


def _check_sizes(piles: Sequence[Sequence[int]], parts: int, min_size: int) -> int:
    """Returns the number of indices; raises ValueError if no split of them is possible."""
    if parts < 1:
        raise ValueError(f"parts: expected 1 or more, got {parts}")
    if min_size < 0:
        raise ValueError(f"min_size: expected 0 or more, got {min_size}")
    total = sum(len(pile) for pile in piles)
    if total < parts * min_size:
        raise ValueError(
            f"{total} labels are too few for {parts} parts of {min_size} or more: expected {parts * min_size}"
        )
    return total


def _shuffled_piles(labels: Iterable[Any], draw: random.Random) -> Parts:
    """Returns the indices of each label, in the order in which labels first come, each pile shuffled.

    An array or tensor is made a list first: the elements of a tensor are all different keys.
    """
    listed: Iterable[Hashable] = labels.tolist() if hasattr(labels, "tolist") else labels
    piles: dict[Hashable, list[int]] = {}
    for index, label in enumerate(listed):
        piles.setdefault(label, []).append(index)
    for pile in piles.values():
        draw.shuffle(pile)
    return list(piles.values())


def _dirichlet(concentrations: Sequence[float], draw: random.Random) -> list[float]:
    """Draws from a Dirichlet distribution, by logarithms: a Gamma(0.001) is nearly always 0 as a float."""
    logs = [
        math.log(draw.gammavariate(shape + 1, 1)) + math.log(1 - draw.random()) / shape
        for shape in concentrations
    ]
    largest = max(logs)
    weights = [math.exp(value - largest) for value in logs]
    total = sum(weights)
    return [weight / total for weight in weights]


def _taken(piles: Parts, weights: Sequence[float], size: int, draw: random.Random) -> list[int]:
    """Takes `size` indices off the piles, each from a pile drawn by weight among those that have some."""
    taken: list[int] = []
    while len(taken) < size:
        left = [at for at, pile in enumerate(piles) if pile]
        ends = list(accumulate(weights[at] for at in left))
        if ends[-1] <= 0.0:  # the wanted labels are used up
            ends = list(accumulate(len(piles[at]) for at in left))
        while len(taken) < size:
            pile = piles[draw.choices(left, cum_weights=ends)[0]]
            taken.append(pile.pop())
            if not pile:
                break  # the weights are computed again only when a label is used up
    return sorted(taken)


def _shared_out(piles: Parts, proportions: Sequence[Sequence[float]], parts: int) -> Parts:
    made: Parts = [[] for _ in range(parts)]
    for pile, shares in zip(piles, proportions, strict=True):
        ends = [round(len(pile) * min(1.0, share)) for share in accumulate(shares)]
        ends[-1] = len(pile)
        for part, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            made[part] += pile[start:end]
    return made
