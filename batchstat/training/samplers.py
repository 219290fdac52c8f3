"""Samplers of individual samples, for `DataLoader(sampler=…)`."""

import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import Any

import numpy as np

from batchstat.errors import OptionError
from batchstat.lengths.labels import label_text
from batchstat.parameters import listed, one_of, whole_number
from batchstat.planning.classes import Classes
from batchstat.planning.distribution import round_robin
from batchstat.planning.rng import rank_sampler_seed, unchanged_random_state
from batchstat.planning.samplers.per_class import Count, Downsampling, PerClassSampler, Upsampling
from batchstat.planning.samplers.weights import Weights
from batchstat.planning.shares import make_order
from batchstat.training.state import check_rank

_REMAINDERS = ("repeat", "drop", "uneven")


class _ClassSampler:
    """Positions of samples, drawn by class and shuffled, with a different draw in every epoch."""

    def __init__(self, labels: Iterable[object], sampler: PerClassSampler, seed: int) -> None:
        self._classes = Classes.encode(listed("labels", labels))
        self._sampler = sampler
        self._seed = whole_number("seed", seed, min_value=0)
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch."""
        self._epoch = whole_number("epoch", epoch, min_value=0)

    def __len__(self) -> int:
        """Return the number of samples in the epoch, repeats counted."""
        return sum(self._sampler.counts(self._classes, self._epoch))

    def __iter__(self) -> Iterator[int]:
        """Yield positions in the labels that were passed in."""
        drawn = self._sampler.draw(self._classes, seed=self._seed, epoch=self._epoch)
        order = make_order(len(drawn), "shuffled", seed=self._seed, epoch=self._epoch)
        yield from drawn[order].tolist()


class ClassBalancedSampler(_ClassSampler):
    """Equal numbers of samples per class, as with `sampler=downsampling`, `upsampling`, `count=N`.

    Depends on (seed, epoch) alone, so it is the same on every rank: distribute it over ranks with
    `RankSampler`.

    Example:
        >>> list(batchstat.ClassBalancedSampler(["a", "a", "b"]))
        [2, 1]
    """

    def __init__(
        self,
        labels: Iterable[object],
        mode: str | int = "downsampling",
        *,
        even: bool = False,
        seed: int = 0,
    ) -> None:
        """Check the arguments.

        Args:
            labels: (n,) the class of each sample, of any type; samples labelled None are skipped.
            mode: `downsampling` to the smallest class, `upsampling` to the largest, or a number of
                samples per class.
            even: where a class has fewer samples, draw each equally often.
            seed: seed of the draws.

        Raises:
            OptionError: an unknown mode.
            InputError: no sample has a label.
        """
        sampler: PerClassSampler
        if isinstance(mode, str):
            name = one_of("mode", mode, ("downsampling", "upsampling"))
            sampler = Downsampling() if name == "downsampling" else Upsampling(even=even)
        else:
            sampler = Count(count=mode, even=even)
        super().__init__(labels, sampler, seed)


class WeightedClassSampler(_ClassSampler):
    """Classes in proportion to weights, exactly `length` samples, as with `sampler=weights=…`.

    Depends on (seed, epoch) alone, so it is the same on every rank: distribute it over ranks with
    `RankSampler`.

    Example:
        >>> len(batchstat.WeightedClassSampler(["a", "a", "b"], {"a": 1, "b": 3}, length=8))
        8
    """

    def __init__(
        self,
        labels: Iterable[object],
        weights: Mapping[Any, float],
        length: int | None = None,
        *,
        even: bool = False,
        seed: int = 0,
    ) -> None:
        """Check the arguments.

        Args:
            labels: (n,) the class of each sample, of any type; samples labelled None are skipped.
            weights: weight of each class; a class that is not named is not drawn.
            length: total number of samples; defaults to the number of labelled samples.
            even: draw all samples of a class equally often, give or take one, where more are drawn
                than it has; else at random, with replacement.
            seed: seed of the draws.

        Raises:
            OptionError: a weight that is negative, not finite, or all 0; a length below 1.
            InputError: a weight for a class that does not occur.
        """
        if not isinstance(weights, Mapping):
            raise OptionError(f"weights={weights!r}", "must map each label to a weight")
        # Labels of any type by their text, as classes are named.
        weights_by_name = {str(label_text(label)): weight for label, weight in weights.items()}
        sampler = Weights(weights=weights_by_name, length=length, even=even)
        super().__init__(labels, sampler, seed)
        # Raises here, and not as the first epoch begins.
        sampler.counts(self._classes, 0)


class RankSampler:
    """Any sampler distributed over ranks, with equal steps and no draw on two ranks.

    Each rank draws the whole epoch from the wrapped sampler with the same random numbers and takes
    its share of it. Python's, NumPy's and torch's global generators, and the `generator` of the
    sampler or of a sampler inside it, are seeded with (seed, epoch) for the draw; the global ones
    are restored afterwards. Any other source of randomness, such as a NumPy Generator of the
    sampler's own, must be seeded identically on every rank. With `remainder=repeat` the first draws
    of the epoch fill the last round.

    Example:
        >>> [list(batchstat.RankSampler(range(5), rank, world_size=2)) for rank in (0, 1)]
        [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        sampler: Sequence[Any] | Iterable[Any],
        rank: int,
        world_size: int,
        *,
        remainder: str = "repeat",
        seed: int = 0,
    ) -> None:
        """Check the arguments.

        Args:
            sampler: any iterable that yields the samples of an epoch each time it is iterated: a
                batchstat or torch sampler, or a list.
            rank: index of this rank, from 0.
            world_size: number of ranks.
            remainder: the remainder over the ranks: `repeat` from the start, `drop`, or `uneven`.
            seed: seed of the wrapped sampler's draws.

        Raises:
            OptionError: an invalid rank, an unknown remainder, or an iterator, which runs only
                once.
        """
        # An iterator returns itself.
        if iter(sampler) is sampler:
            raise OptionError(
                f"{type(sampler).__name__} can be iterated only once, but every epoch iterates it",
                "pass a list or a sampler",
            )
        check_rank(rank, world_size)
        # A sampler that shards would leave out samples: torch's and batchstat's say if they do.
        names = ("num_replicas", "world_size")
        if world_size > 1 and any(getattr(sampler, name, 1) != 1 for name in names):
            raise OptionError(
                f"{type(sampler).__name__} already shards across ranks", "pass the sampler it wraps"
            )
        self._sampler = sampler
        self._rank, self.world_size = rank, world_size
        self._remainder = one_of("remainder", remainder, _REMAINDERS)
        self._seed = whole_number("seed", seed, min_value=0)
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, for the wrapped sampler too if it has epochs."""
        self._epoch = whole_number("epoch", epoch, min_value=0)
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)

    def __len__(self) -> int:
        """Return the number of samples of this rank in the epoch."""
        n = len(self._sampler) if isinstance(self._sampler, Sized) else len(self._drawn())
        return int(np.count_nonzero(self._turns(n) >= 0))

    def __iter__(self) -> Iterator[Any]:
        """Yield this rank's samples."""
        drawn = self._drawn()
        for position in self._turns(len(drawn)).tolist():
            if position >= 0:
                yield drawn[position]

    def _turns(self, n: int) -> Any:
        return round_robin(n, self.world_size, self._remainder)[:, self._rank]

    def _drawn(self) -> list[Any]:
        with _seeded(self._sampler, self._seed, self._epoch):
            return list(self._sampler)


@contextmanager
def _seeded(sampler: object, seed: int, epoch: int) -> Iterator[None]:
    """Make the random numbers of all generators depend on (seed, epoch) alone, in the context."""
    draw_seed = rank_sampler_seed(seed, epoch)
    torch = sys.modules.get("torch")  # not imported: a sampler that draws with torch has done so
    with unchanged_random_state():
        random.seed(draw_seed)
        np.random.seed(draw_seed)
        if torch is not None:  # not torch.manual_seed, which would also seed the accelerators
            torch.default_generator.manual_seed(draw_seed)
        inner: Any = sampler
        # torch's BatchSampler has another sampler inside it, which may have its own generator.
        while inner is not None:
            own_rng: Any = getattr(inner, "generator", None)
            if hasattr(own_rng, "manual_seed"):
                own_rng.manual_seed(draw_seed)
            inner = getattr(inner, "sampler", None)
        yield
