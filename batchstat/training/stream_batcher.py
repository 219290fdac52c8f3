"""`StreamBatcher`: batches of samples from a stream, window by window."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any, Unpack

import numpy as np

from batchstat.errors import InputError, OptionError
from batchstat.parameters import MAX_INT, checks_keywords, whole_number
from batchstat.planning.epoch import make_epoch
from batchstat.planning.plan import Window
from batchstat.planning.rng import window_rng
from batchstat.planning.settings import Settings, SettingsOptions
from batchstat.planning.strategies.spec import RowRequest, StrategySpec
from batchstat.storage.sealed_records import seal
from batchstat.training.state import check_same_sampler, digest

SCHEMA = "batchstat.stream/4"

_NOT_STREAMED = (
    *("world_size", "distribute", "remainder", "order", "sampler", "keep_labels"),
    *("gradient_accumulation_steps", "wait", "balance_by", "loss"),
)
"""Settings that only a whole epoch can have."""
_OTHER_SOURCE = (
    "the source does not match the state: the samples of its window have other lengths",
    "restart the epoch, or pass replay=True if the source shuffles in a buffer",
)


class StreamBatcher:
    """Batches as lists of samples: a strategy applied to each window of an iterable of any length.

    A window is the strategy's `read_ahead` consecutive samples, so over a whole corpus the batches
    are those of `batchstat compare --order file`. A strategy without one uses the `read_ahead` of
    the settings, rounded down to whole batches where it has a `batch_size`. Shuffling, sharding and
    prefetching are left to the source.

    The position can be saved at every batch. A source with `state_dict` and `load_state_dict`, such
    as an IterableDataset of `datasets` or a StatefulDataLoader, is restored to the start of the
    window. Any other is read again up to there, as is every source with `replay`: use it for a
    shuffled IterableDataset, whose state does not include its shuffle buffer. One window is read
    ahead, to know which one is the last.

    Example:
        >>> words = ["a b", "c", "d e f", "g"]
        >>> list(batchstat.StreamBatcher(words, length=len, tokens_per_batch=12))
        [['d e f', 'a b'], ['c', 'g']]
    """

    @checks_keywords(Settings)
    def __init__(
        self,
        samples: Iterable[Any],
        *,
        length: str | Callable[[Any], int],
        strategy: str | StrategySpec = "token-budget",
        replay: bool = False,
        **settings: Unpack[SettingsOptions],
    ) -> None:
        """Check the arguments; nothing is read yet.

        Args:
            samples: iterable, iterated again for every epoch.
            length: tokens of a sample: the key of its token ids or of a number, or a function.
            strategy: as `batchstat compare --strategy` takes it.
            replay: read the source again on resuming, even if it can restore itself.
            settings: fields of `batchstat.Settings` that strategies take, and `seed` and `epoch`;
                `max_length` where a strategy or `overflow` needs it.

        Raises:
            OptionError: an invalid setting or strategy, or one that a stream cannot have.
        """
        for key in _NOT_STREAMED:
            if key in settings:
                raise OptionError(
                    f"{key} needs a whole epoch", "remove it and let the source of the stream do it"
                )
        given = Settings(**settings)
        if not hasattr(samples, "__iter__"):
            raise OptionError(f"samples is {type(samples).__name__}, which cannot be iterated")
        self._source = samples
        self._replay = replay
        self._beginning: Any = None  # state of the source before any other was loaded into it
        self._length = length
        # No corpus says the longest sample: without `max_length`, no sample is too long.
        longest = given.max_length or MAX_INT
        self._basis = replace(given, max_length=longest).resolve(longest, stated_max=None)
        request = StrategySpec.parse(strategy).request(self._basis)
        if given.overflow == "split" or request.strategy.needs_epoch:
            what = "overflow=split" if given.overflow == "split" else request.name
            raise OptionError(f"{what} needs a whole epoch and cannot batch a stream")
        _check_longest_known(request, given)
        self._strategy = request.strategy
        # Without a window of its own, a strategy gets `read_ahead` samples, in whole batches.
        batch_size = self._strategy.batch_capacity or 1
        whole_batches = max(batch_size, given.read_ahead // batch_size * batch_size)
        self._window_size = self._strategy.window_size or whole_batches
        self._fingerprint: dict[str, Any] = {
            "strategy": {"name": request.name, **request.params},
            "window": self._window_size,
            **{key: getattr(self._basis, key) for key in ("max_length", "overflow", "seed")},
        }
        self._resume: Mapping[str, Any] | None = None  # where the next iterator begins, if loaded
        self._state = self._start_of(self._basis.epoch)  # what `state_dict` reports
        self._running: object = None  # marks the iterator that was started last

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, for the source too if it has epochs; a new epoch starts over."""
        epoch = whole_number("epoch", epoch, min_value=0)
        if epoch != self._basis.epoch:
            self._basis = replace(self._basis, epoch=epoch)
            self._resume = None
            self._state = self._start_of(epoch)
        if hasattr(self._source, "set_epoch"):
            self._source.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[Any]]:
        """Yield batches as lists of samples, from the position that was loaded on.

        Raises:
            InputError: an invalid length, or a source that does not match the state.
        """
        epoch = self._basis.epoch
        resume, self._resume = self._resume or self._start_of(epoch), None
        # Where a later iterator has put its mark, this one no longer moves the batcher's position.
        mark = self._running = object()
        # The window to begin with, samples before it, and batches of it that were trained on.
        number, n_before, n_trained_on = resume["window"], resume["samples"], resume["batches"]
        # The state of the source before the window. The source is not asked for it here: until it
        # is read from, it may still report its position at the end of an epoch.
        source_state = resume["source"]
        self._restore_source(source_state)
        stream = iter(self._source)
        # A source without a state is read again up to the window.
        n_read = n_before if source_state is not None else sum(1 for _ in islice(stream, n_before))
        if n_read < n_before:
            raise InputError(
                f"the source has {n_read:,} samples, but the state is after {n_before:,}",
                "restart the epoch",
            )
        window = list(islice(stream, self._window_size))
        if n_trained_on and not window:
            raise InputError(*_OTHER_SOURCE)
        while window:
            next_source_state = self._state_of_source()
            # A short window is the last one. A full one may be, too, if nothing follows.
            is_full = len(window) == self._window_size
            next_window = list(islice(stream, self._window_size)) if is_full else []
            lengths = self._lengths(window, n_before)
            window_state = self._start_of(epoch) | {
                "window": number,
                "samples": n_before,
                "source": source_state,
                "lengths": digest(lengths),
            }
            # A window that is resumed is planned again: its lengths must be those that it had.
            if n_trained_on and window_state["lengths"] != resume["lengths"]:
                raise InputError(*_OTHER_SOURCE)
            rng = window_rng(self._basis.seed, epoch, number)
            last, n_planned = not next_window, 0  # `n_planned` batches of the window so far
            for n_planned, batch in enumerate(self._plan(window, lengths, rng, last=last), 1):
                # Batches that were trained on before are planned, but not yielded.
                if n_planned > n_trained_on:
                    if self._running is mark:
                        self._state = window_state | {"batches": n_planned}
                    yield batch
            if n_trained_on > n_planned:
                raise InputError(*_OTHER_SOURCE)
            number, n_before, n_trained_on = number + 1, n_before + len(window), 0
            window, source_state = next_window, next_source_state

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch of the iterator that was started last."""
        without_source = {key: value for key, value in self._state.items() if key != "source"}
        # The source's own state may hold what JSON cannot, and checking it is up to the source.
        return {**seal(without_source), "source": deepcopy(self._state["source"])}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the position of another batcher of an equal source.

        Raises:
            OptionError: not a batcher state, or a state of another version or other settings; the
                message says which.
        """
        numbers = ("epoch", "window", "batches", "samples")
        check_same_sampler(state, self._fingerprint, SCHEMA, numbers)
        for key in ("source", "lengths"):
            if key not in state:
                raise OptionError(f"the state has no {key}", "pass the full result of state_dict()")
        if state["source"] is not None and not hasattr(self._source, "load_state_dict"):
            raise OptionError(
                f"the state includes the source's state, but {type(self._source).__name__} cannot "
                "be restored",
                "pass a source with load_state_dict",
            )
        # Every window before the position is full.
        if state["samples"] != state["window"] * self._window_size:
            raise OptionError(
                f"the state is after {state['samples']:,} samples of {state['window']:,} windows "
                f"of {self._window_size:,}",
                "pass the result of state_dict()",
            )
        self.set_epoch(state["epoch"])
        self._resume = {key: value for key, value in state.items() if key != "digest"}
        self._state = dict(self._resume)
        # An iterator that still runs no longer moves the position.
        self._running = None

    def _plan(
        self, window: list[Any], lengths: Any, rng: np.random.Generator, *, last: bool
    ) -> Iterator[list[Any]]:
        """Yield the batches of a window, as lists of its samples."""
        positions = np.arange(len(window))
        # The samples after `overflow`, which may truncate samples, or drop some or all of them.
        limited = make_epoch(positions, lengths, self._basis.max_length, self._basis.overflow)
        if limited.count == 0:
            return
        plan = self._strategy.plan(Window(limited.lengths, rng, last))
        if plan.starts is not None:
            raise InputError(
                f"{self._fingerprint['strategy']['name']} splits samples here, which is not "
                "supported for streams"
            )
        # (n_entries,) the position of each entry in the window, and where each batch begins.
        entry_positions = limited.samples[plan.samples].tolist()
        for first, end in pairwise(plan.row_offsets[plan.batch_offsets].tolist()):
            yield [window[i] for i in entry_positions[first:end]]

    def _lengths(self, window: list[Any], before: int) -> Any:
        """Return (n,) tokens of the samples of a window, after `before` others."""
        lengths = []
        for i, sample in enumerate(window):
            length = self._length_of(sample)
            if (
                isinstance(length, bool)
                or not hasattr(length, "__index__")
                or not 0 < length < MAX_INT
            ):
                raise InputError(
                    f"sample {before + i} of the stream has length {length!r}",
                    f"must be a whole number between 1 and {MAX_INT:,}",
                )
            lengths.append(int(length))
        return np.array(lengths, dtype=np.int64)

    def _length_of(self, sample: Any) -> Any:
        """Return a sample's length, unchecked: by a function, of a list of ids, or a number."""
        if callable(self._length):
            return self._length(sample)
        try:
            value = sample[self._length]
        except (KeyError, TypeError, IndexError):
            raise InputError(
                f"a sample of the stream has no {self._length!r}: {type(sample)}"
            ) from None
        return len(value) if hasattr(value, "__len__") else value

    def _restore_source(self, state: Any) -> None:
        """Load a state into the source, or for None its beginning, if another state was loaded."""
        source: Any = self._source
        if state is not None:
            if self._beginning is None:
                self._beginning = self._state_of_source()
            source.load_state_dict(state)
        elif self._beginning is not None:
            source.load_state_dict(self._beginning)

    def _state_of_source(self) -> Any:
        source: Any = self._source
        has_both = hasattr(source, "state_dict") and hasattr(source, "load_state_dict")
        # A copy, since a source may modify what it returned.
        return deepcopy(source.state_dict()) if has_both and not self._replay else None

    def _start_of(self, epoch: int) -> dict[str, Any]:
        """Return the state of an epoch of which nothing has been read."""
        return {
            "schema": SCHEMA,
            "epoch": epoch,
            "window": 0,
            "batches": 0,
            "samples": 0,
            "source": None,
            "lengths": None,
            "fingerprint": self._fingerprint,
        }


def _check_longest_known(request: RowRequest, given: Settings) -> None:
    """Raise OptionError if only `max_length` could say the longest sample, which is needed."""
    if given.max_length is not None:
        return
    name, strategy = request.name, request.strategy
    if strategy.row_length is not None:
        raise OptionError(f"strategy {name} needs max_length: the longest sample is not known")
    # Nobody gives one: it would be derived from `max_length`.
    is_derived = given.batch_size is None and not request.sets("batch_size")
    if strategy.batch_capacity is not None and is_derived:
        raise OptionError(f"strategy {name} needs batch_size, or max_length to derive it from")
