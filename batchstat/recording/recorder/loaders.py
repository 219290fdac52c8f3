"""The batches that loaders of torch hand out, with their sample numbers."""

from __future__ import annotations

import collections
import itertools
import operator
import sys
import weakref
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

from .arguments import WholeNumbers, as_array, fingerprint
from .read_batches import ReadBatch, is_equal
from .reading import token_ids

# The attribute of an iterator that holds its facts, which so go when the iterator goes.
_FACTS = "_batchstat"
# Where it has the tokens of its batch before that was cut, if it was; and of the one in whose place
# that came, if its step was regrouped.
_BEFORE, _TODAY = "_batchstat_before", "_batchstat_today"
_KEY = "_batchstat_key"  # where it has what tells its loader from others
_RECENT = 8  # batches, the last handed out, in which a forward's own tensors are looked for
_RECENT_IN_DRY_RUN = 256  # from which it learns: a loop may take the batches of a step at once
_MOST_FETCHED = 1024  # batches that wait to be computed: more are those of an evaluation


class Epochs(NamedTuple):
    """What is known of iterators at one moment, by their numbers."""

    newest: int
    live: frozenset[int] = frozenset()  # those that have yielded and that the loop still holds


class Fetched:
    """A batch that a loader has handed out."""

    __slots__ = (
        "before",
        "data",
        "epoch",
        "ids",
        "iterator",
        "numbers",
        "place",
        "source",
        "today",
    )

    def __init__(
        self, iterator: Any, facts: _IteratorFacts, numbers: list[int] | None, data: Any
    ) -> None:
        # A weak reference to the iterator that yielded it; None where it is not needed.
        self.iterator = iterator
        # Its sample numbers; None for a stream, which has none, and for a part of a batch.
        self.numbers = numbers
        self.before = self.today = 0  # as `RecordedBatch` has them
        self.data = data  # what the loader yielded; None where that is not needed any more
        self.ids: Any = None  # the token ids of the batch that was computed last, else None
        # (epoch, data set, loader), a number of each. The epoch is the number of the iterator.
        self.source, self.epoch = facts.source, facts.source[0]
        self.place = facts.n_yielded  # how many batches the iterator had yielded before
        facts.n_yielded += 1

    @property
    def arrays(self) -> Any:
        """Its tensors of whole numbers, as arrays in the same mappings and sequences."""
        return WholeNumbers(self.data).converted(as_array)

    def holds(self, tensors: list[Any]) -> bool:
        """Return whether one of the tensors is an item of this batch: the same object, no copy."""
        data = self.data
        values = data.values() if isinstance(data, Mapping) else data
        if not isinstance(data, (Mapping, list, tuple)):
            values = (data,)  # a single tensor
        return any(value is tensor for value in values for tensor in tensors)


class Loaders:
    """Finds, for the batch that a forward computed, the batch of a loader that it came from.

    Loaders prefetch, a dispatcher cuts batches into parts, and evaluation has loaders too. So each
    batch waits here until a forward computes it: the same tensors, or, where they were copied to a
    device, the same token ids.
    """

    def __init__(self, keeps_batches: bool) -> None:
        # Batches that a dispatcher cuts into parts for the ranks, not written yet.
        self.handed: list[Fetched] = []
        # The last batches, which are looked through for the very tensors of a forward; in a dry
        # run, for the batch that it computes a part of.
        self.recent: collections.deque[Fetched] = collections.deque(maxlen=_RECENT_IN_DRY_RUN)
        self._keeps_batches = keeps_batches  # in a dry run, which reads them later
        # Batches that no forward has computed yet, by the fingerprint of their token ids: a list,
        # since an evaluation may hand out the same batch.
        self._waiting: collections.OrderedDict[int, list[Fetched]] = collections.OrderedDict()
        self._data_sets, self._loaders = _Numbering(), _Numbering()
        # The number of the newest iterator, and how many iterators have yielded batches.
        self._newest_epoch, self.n_yielding = -1, 0
        # (an iterator, what returns the batch that it yields instead of its own), for checks.
        self.injected: Any = None
        # number of an iterator -> weak reference to it. Another one for each change, since several
        # threads may iterate.
        self._iterators: dict[int, Any] = {}
        self._trained: set[int] = set()  # the numbers of iterators whose batches were computed

    def is_injected(self, iterator: Any) -> bool:
        """Return whether the checks give an iterator its batches: the injected one, or the next of
        its loader, since a loop may count the batches of an epoch. Not that of an evaluation, which
        would have no end.
        """
        if self.injected is None or iterator is self.injected[0]:
            return self.injected is not None
        key = iterator.__dict__.get(_KEY)
        is_same = key is not None and key == self.injected[0].__dict__.get(_KEY)
        return is_same and bool(sys.modules["torch"].is_grad_enabled())

    def note_asked(self, iterator: Any, index: Any) -> None:
        """Note the sample numbers of a batch, `index`, which an iterator got from its sampler."""
        self._facts_of(iterator).asked.append(_numbers(index))

    def note_new_epoch(self, iterator: Any) -> None:
        """Note that an iterator begins an epoch: one that persists counts as another one."""
        iterator.__dict__.pop(_FACTS, None)

    def note_ended(self, iterator: Any) -> None:
        """Note that an iterator has no more batches. One that persists stays in memory."""
        if getattr(iterator, "_persistent_workers", False):
            self._iterators = self._live_but(iterator)

    def _live_but(self, iterator: Any) -> dict[int, Any]:
        held = self._iterators.items()
        return {epoch: ref for epoch, ref in held if all(ref() is not n for n in (None, iterator))}

    def note_yielded(self, iterator: Any, data: Any) -> None:
        """Note a batch that a loader yields, with the sample numbers that were asked for it."""
        facts = self._facts_of(iterator)
        # The oldest request: workers prefetch, so that the sampler is several batches ahead.
        numbers = facts.asked.popleft() if facts.asked else None
        # DataLoader(in_order=False) yields whichever batch its workers had first.
        if not getattr(iterator, "_in_order", True):
            numbers = None
        self.n_yielding += not facts.n_yielded
        if facts.is_dispatched:  # its parts are computed, on all ranks, and never the whole batch
            self.handed.append(Fetched(None, facts, numbers, data))
        else:
            # A strong reference would keep the iterator, and the threads of its workers.
            fetched = Fetched(weakref.ref(iterator), facts, numbers, data)
            fetched.before = iterator.__dict__.pop(_BEFORE, 0)
            fetched.today = iterator.__dict__.pop(_TODAY, 0)
            self._note_fetched(fetched)

    def _note_fetched(self, fetched: Fetched) -> None:
        """Add a batch to the recent ones, which a forward takes by its tensors. The oldest of them
        then waits for a forward that has its token ids.
        """
        self.recent.append(fetched)
        if not fetched.place:  # one that persists had another number before
            others = self._live_but(fetched.iterator())
            self._iterators = {**others, fetched.epoch: fetched.iterator}
        # In a dry run no batch is taken by its tensors: each waits from the beginning.
        if self._keeps_batches:
            self._put_waiting(fetched)
        elif len(self.recent) > _RECENT:
            self._put_waiting(self.recent.popleft())

    def _put_waiting(self, fetched: Fetched) -> None:
        ids = token_ids(fetched.arrays)
        if ids is not None:
            self._waiting.setdefault(fingerprint(ids), []).append(fetched)
        if not self._keeps_batches:
            fetched.data = None  # the fingerprint is enough, and an evaluation hands out many
        while len(self._waiting) > _MOST_FETCHED:
            self._waiting.popitem(last=False)  # the oldest

    @property
    def epochs(self) -> Epochs:
        """What is known of iterators now."""
        return Epochs(self._newest_epoch, frozenset(self._live_but(None)))

    def mark_dispatched(self, iterator: Any) -> None:
        """Note that accelerate's dispatcher cuts what an iterator yields into parts for ranks."""
        if hasattr(iterator, "__dict__"):  # only its first rank has one
            self._facts_of(iterator).is_dispatched = True

    def yield_noted(self, parts: Any, loader: Any) -> Any:
        """Yield the parts of a dispatcher's batches that this rank computes, each of them noted."""
        facts = self._new_facts(loader.dataset, loader)

        def parts_noted() -> Any:
            for data in parts:
                self._note_fetched(Fetched(reference, facts, None, data))
                yield data

        generator = parts_noted()
        # The iterator of each part, as `Fetched` has it. The generator reads it when it first runs.
        reference = weakref.ref(generator)
        return generator

    def _facts_of(self, iterator: Any) -> _IteratorFacts:
        facts: _IteratorFacts | None = iterator.__dict__.get(_FACTS)
        if facts is None:
            data_set, sampler = (getattr(iterator, n, None) for n in ("_dataset", "_index_sampler"))
            facts = iterator.__dict__[_FACTS] = self._new_facts(data_set, sampler)
        return facts

    def _new_facts(self, data_set: Any, loader: Any) -> _IteratorFacts:
        numbers = self._data_sets.number_of(data_set), self._loaders.number_of(loader)
        self._newest_epoch += 1
        return _IteratorFacts((self._newest_epoch, *numbers))

    def take_with_tensors(self, tensors: list[Any]) -> Fetched | None:
        """Return the recent batch that holds one of a forward's tensors, and forget it."""
        if self._keeps_batches:  # a dry run needs every batch later, and finds it by its ids
            return None
        for fetched in self.recent:
            if fetched.holds(tensors):
                self.recent.remove(fetched)
                self._trained.add(fetched.epoch)
                fetched.data = None  # its forward has the tensors: here only its numbers are needed
                return fetched
        return None

    def take_with_ids(
        self, computed: ReadBatch, last: Fetched | None, epochs: Epochs
    ) -> Fetched | None:
        """Return the waiting batch that has the token ids of a computed one, and forget it. `last`
        is the loader's batch before it; `epochs` are of when it was computed.
        """
        if computed.ids is None:
            return None
        # A device got copies of the tensors: the recent batches wait by their token ids, too.
        while self.recent and not self._keeps_batches:
            self._put_waiting(self.recent.popleft())
        key = fingerprint(computed.ids)
        # Batches are read a while after they are computed: a later epoch may have begun.
        waiting = self._waiting.get(key, [])
        same_ids = [each for each in waiting if each.epoch <= epochs.newest]
        if self._keeps_batches or (last is not None and is_equal(last.ids, computed.ids)):
            same_ids = [each for each in same_ids if goes_on(each, last, epochs)]
        if not same_ids:
            return None
        # An evaluation on the training data hands out the same batches, and an epoch before may
        # have skipped them; their iterators were gone. The batch that is trained is of the iterator
        # of the last, or else of any that was trained, or else of the newest.
        epoch = None if last is None else last.epoch
        taken = max(
            same_ids,
            key=lambda each: (
                each.epoch in epochs.live,
                each.epoch == epoch,
                each.epoch in self._trained,
                each.epoch,
                -each.place,
            ),
        )
        self._trained.add(taken.epoch)
        waiting.remove(taken)
        if not waiting:
            del self._waiting[key]
        return taken

    def read_uncomputed(self, last: Fetched, computed: Container[Fetched]) -> Iterator[Fetched]:
        """Yield the batches of the epoch of the `last` computed one that are not computed yet."""
        iterator = last.iterator()  # None once the loop has let go of it
        # First what the loop, or accelerate, has read ahead.
        waiting = [each for each in self._take_waiting() if each.epoch == last.epoch]
        yield from (each for each in waiting if each not in computed)
        if iterator is not None:
            for _ in iterator:  # `note_yielded` is called, by which each batch waits
                yield from self._take_waiting()

    def _take_waiting(self) -> list[Fetched]:
        waiting = [fetched for same_ids in self._waiting.values() for fetched in same_ids]
        self._waiting.clear()
        return waiting


def goes_on(fetched: Fetched, last: Fetched | None, epochs: Epochs) -> bool:
    """Return whether a loop may compute a batch of a loader after the `last` one. What an ended
    evaluation or an earlier epoch left is not computed any more as long as the iterator of the last
    goes on: an equal batch is that one, computed again.
    """
    if last is None or fetched.epoch == last.epoch:
        return True
    return fetched.epoch in epochs.live or last.epoch not in epochs.live


class _IteratorFacts:
    """What is known of an iterator of a loader."""

    def __init__(self, source: tuple[int, int, int]) -> None:
        self.source = source  # its number, and those of its data set and loader
        self.n_yielded = 0  # batches
        self.is_dispatched = False  # whether accelerate's dispatcher cuts what it yields
        self.asked: collections.deque[list[int] | None] = collections.deque()  # not yielded yet


class _Numbering:
    """Numbers of objects, as long as they live: Python may give a later one the same `id`."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[int, Any]] = {}
        self._numbers = itertools.count()

    def number_of(self, value: Any) -> int:
        """Return the number of an object."""
        # A list has no weak references: another with this `id` has other items.
        first_item = id(value[0]) if type(value) in (list, tuple) and value else None
        key = id(value), first_item
        number, reference = self._known.get(key, (None, None))
        if number is None or (reference is not None and reference() is not value):
            number = next(self._numbers)
            try:
                self._known[key] = number, weakref.ref(value)
            except TypeError:
                self._known[key] = number, None
        return number


def _numbers(index: Any) -> list[int] | None:
    try:
        return [operator.index(each) for each in (index if isinstance(index, list) else [index])]
    except TypeError:
        return None
