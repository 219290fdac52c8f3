"""What a process computed, on its way into its file: batches and ends of steps that wait for others
or for a device, and become lines.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .arguments import Digests, fingerprint, is_stream
from .devices import Clock, Moment
from .dry_run import DryRun
from .loaders import Fetched, Loaders
from .log import Log
from .orders import Orders
from .read_batches import ReadBatch, part_of

if TYPE_CHECKING:
    from .forward import Forward


class LineQueue:
    """Batches and ends of steps that are to be written."""

    def __init__(self, orders: Orders, log: Log, loaders: Loaders, clock: Clock) -> None:
        self._log, self._loaders, self._clock, self._steps = log, loaders, clock, orders.steps
        self._digests = Digests(orders.key)
        self.last_model: Any = None  # that computed a batch last
        self._last_fetched: Fetched | None = None  # the loader's batch that was computed last
        # Of the last line: the loader's batch, None where it is not known.
        self._last_of_lines: Fetched | None = None
        # Learns from the batches of a loop how the others would be; None where none are read.
        self.dry_run: DryRun | None = DryRun(loaders) if orders.is_dry else None
        # The forwards of a batch (none: end of a step), its begin and end, and its line so far.
        self._waiting: collections.deque[tuple[list[Forward], list[Moment], dict[str, Any]]]
        self._waiting = collections.deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def last(self) -> Fetched | None:
        """The loader's batch that was computed last; None where that is not known, or not yet."""
        return None if self._waiting else self._last_of_lines

    def add(self, forwards: list[Forward], moments: list[Moment], line: dict[str, Any]) -> None:
        """Let a batch wait, or the end of a step, which has no forwards."""
        self._waiting.append((forwards, moments, line))

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()

    def write_arrived(self, wait: bool = False) -> None:
        """Write the queue up to the first line that waits for a device; with `wait`, all of it."""
        self._log.write(itertools.chain(self._handed_lines(), self._arrived_lines(wait)))

    def _arrived_lines(self, wait: bool) -> Iterator[dict[str, Any]]:
        """Take the lines of `write_arrived` out of the queue, complete and yield them."""
        while self._waiting:
            forwards, moments, line = self._waiting[0]
            awaited: list[Any] = [*forwards, *moments]
            if not wait and not all(each.is_here for each in awaited):
                return
            self._waiting.popleft()
            if forwards:  # a batch, not the end of a step
                # A forward without parts has rows of whole numbers that cannot be token ids.
                computed = [(parts, forward) for forward in forwards if (parts := forward.read())]
                if not computed:
                    continue
                self._add_samples(line, computed)
            # Before the times below, which are counted from when the file is opened.
            self._log.open()
            if moments:
                clock = self._clock
                line["t"] = [self._log.seconds(clock.seconds(moment)) for moment in moments]
            yield line

    def _handed_lines(self) -> Iterator[dict[str, Any]]:
        """Yield numbers and digests of the samples that accelerate's dispatcher handed out."""
        # Only its first rank has the numbers: digests tell which rank computed which sample.
        while self._loaders.handed:
            fetched = self._loaders.handed.pop(0)
            # Read as the model reads them. Before one has computed, they are not written.
            parts = [] if self.last_model is None else self.last_model.read(fetched.arrays)
            if parts and fetched.numbers is not None:  # a stream has no numbers
                digests = self._digests.of(parts[0])
                yield {"k": "handed", "e": fetched.epoch, "n": fetched.numbers, "d": digests}

    def _add_samples(
        self, line: dict[str, Any], computed: list[tuple[list[ReadBatch], Forward]]
    ) -> None:
        """Add to the line of a batch what its forwards computed, its epoch and sample numbers."""
        all_parts: list[ReadBatch] = []
        # For each part, the loader's batch that it is of; None where that is not known.
        fetched_of_parts: list[Fetched | None] = []
        views: dict[Any, Fetched | None] = {}  # several forwards may compute one batch
        for parts, forward in computed:
            ids = parts[0].ids
            key = None if ids is None or len(computed) < 2 else fingerprint(ids)
            fetched = forward.fetched or views.get(key)
            fetched = fetched or self._loaders.take_with_ids(
                parts[0], self._last_fetched, forward.epochs
            )
            if key is not None:
                views[key] = fetched
            all_parts += parts
            fetched_of_parts += [fetched] * len(parts)
        if self.dry_run is not None:
            known = list(filter(None, fetched_of_parts))
            explained = self.dry_run.learn(line["s"], computed, known, self._last_fetched)
            if explained is not None:
                fetched_of_parts = [explained] * len(all_parts)
        last = self._last_of_lines = next(filter(None, reversed(fetched_of_parts)), None)
        self._note_last(last, all_parts[-1])
        batches = set(filter(None, fetched_of_parts))
        if len(batches) == 1:
            (fetched,) = batches
            # Other forwards of this backward compute other views of the only batch.
            n_samples = len(fetched.numbers or [0])
            if n_samples and not any(part.rows % n_samples for part in all_parts):
                fetched_of_parts = [fetched] * len(all_parts)
                line["one"] = 1
            iterator = fetched.iterator and fetched.iterator()
            if is_stream(getattr(iterator, "_dataset", None)):
                line["stream"] = True
        for kind in ("before", "today"):
            tokens = sum(getattr(each, kind) for each in batches)
            if tokens:
                line[kind] = tokens
        self._add_parts(line, all_parts, fetched_of_parts)

    def _note_last(self, fetched: Fetched | None, part: ReadBatch) -> None:
        last = self._last_fetched
        if fetched is not None and fetched is not last:
            self._last_fetched, fetched.ids = fetched, part.ids
            if last is not None:
                last.ids = None

    def _add_parts(
        self, line: dict[str, Any], parts: list[ReadBatch], fetched: Sequence[Fetched | None]
    ) -> None:
        """Add parts to a line, with the loader's batch of each; with digests if one is unknown."""
        line["parts"] = [part_of(part) for part in parts]
        known = [each for each in fetched if each is not None]
        if known:
            line["epoch"] = known[-1].epoch
            line["sources"] = [each and each.source for each in fetched]
        numbers = [each.numbers for each in known]
        if len(known) == len(fetched) and None not in numbers:
            line["numbers"] = numbers
        else:
            line["digests"] = [self._digests.of(part) for part in parts]

    def read_rest(self, applier: Any) -> str:
        """In a dry run, read the rest of the epoch; return why less of it was read, or "". An
        `applier` looks at each batch.
        """
        self.write_arrived(wait=True)
        assert self.dry_run is not None, "the rest is read in a dry run"
        for fetched, parts in self.dry_run.rest(self._steps, applier):
            if parts:
                line: dict[str, Any] = {"k": "rest", "one": 1}
                self._add_parts(line, parts, [fetched] * len(parts))
                self._log.write([line])
        self._log.write(self._handed_lines())
        return self.dry_run.why_less
