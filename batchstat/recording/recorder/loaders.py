"""What loaders hand out: the sample numbers of batches, and the batches that are never trained."""

from __future__ import annotations

import collections
import itertools
import operator
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from .arguments import WholeNumbers, as_array, fingerprint
from .handing import Handing
from .read_batches import ReadBatch
from .reading import token_ids

# Stored on the iterator itself, so that it goes when the iterator goes.
_OWN = "_batchstat"
_RECENT = 8
"""Batches among which the one is looked for that a loop has computed in another form."""
_MOST_FETCHED = 1024
"""Batches that were handed out and are not computed yet: more are those of an evaluation."""


class Fetched:
    """A batch that a loader has handed out.

    Attributes:
        iterator: a weak reference to what yielded it.
        epoch: number of that iterator.
        numbers: its sample numbers; None for those of a stream, or of a part of a batch.
        data: what it is; None where that is not needed any more.
    """

    __slots__ = ("data", "epoch", "iterator", "numbers")

    def __init__(self, iterator: Any, epoch: Any, numbers: list[int] | None, data: Any) -> None:
        """Take a batch, and what its sampler asked for."""
        self.iterator, self.epoch, self.numbers, self.data = iterator, epoch, numbers, data

    @property
    def arrays(self) -> Any:
        """Its whole numbers."""
        return WholeNumbers(self.data).converted(as_array)

    def holds(self, tensors: list[Any]) -> bool:
        """Return whether one of these is in it, as the very tensor, and not nested deeper."""
        data = self.data
        values = data.values() if isinstance(data, Mapping) else data
        if not isinstance(data, (Mapping, list, tuple)):
            values = (data,)
        return any(value is each for value in values for each in tensors)


class Loaders:
    """Sees what the loaders of torch hand out.

    A batch is joined with the forward that computes it by its token ids. What loaders say alone is
    not what is trained: they prefetch, a dispatcher cuts what they yield, and evaluation has some.

    Attributes:
        handed: batches that a dispatcher cuts into parts for the ranks, not written yet.
        handing: how the loop hands what they hand out to its model.
        recent: the last batches, most of which are computed as the very tensors that they are; in a
            dry run, those of which it is learnt how they are computed.
    """

    def __init__(self, keeps_batches: bool) -> None:
        """Begin without any; batches are kept where the rest of an epoch is to be read."""
        self.handed: list[Fetched] = []
        self.handing = Handing()
        self.recent: collections.deque[Fetched] = collections.deque()
        self._keeps = keeps_batches
        self._waiting: collections.OrderedDict[int, list[Fetched]] = collections.OrderedDict()
        self._epochs = itertools.count()

    def asked(self, iterator: Any, index: Any) -> None:
        """Note what a sampler asks for."""
        self._own(iterator).asked.append(_numbers(index))

    def began_again(self, iterator: Any) -> None:
        """Note that an iterator whose workers persist begins another epoch."""
        # DataLoader with persistent_workers resets the same iterator for each epoch.
        iterator.__dict__.pop(_OWN, None)

    def yielded(self, iterator: Any, data: Any) -> None:
        """Note what a loader yields."""
        own = self._own(iterator)
        # Workers prefetch: what is asked for is several batches ahead of what is yielded.
        numbers = own.asked.popleft() if own.asked else None
        if not getattr(iterator, "_in_order", True):
            numbers = None  # of whichever batch its workers had first
        if own.is_dispatched:
            self.handed.append(Fetched(None, own.epoch, numbers, data))
        else:
            # A strong reference would end the threads of its workers too late.
            self._note(Fetched(weakref.ref(iterator), own.epoch, numbers, data))

    def _note(self, fetched: Fetched) -> None:
        self.recent.append(fetched)
        if self._keeps:
            self._wait(fetched)
        if len(self.recent) > _RECENT:
            oldest = self.recent.popleft()
            if not self._keeps:
                self._wait(oldest)

    def _wait(self, fetched: Fetched) -> None:
        """Let a batch wait for the forward that has the same token ids."""
        ids = token_ids(fetched.arrays)
        if ids is not None:
            self._waiting.setdefault(fingerprint(ids), []).append(fetched)
        if not self._keeps:
            fetched.data = None  # an evaluation may hand out many
        while len(self._waiting) > _MOST_FETCHED:
            self._waiting.popitem(last=False)

    def dispatches(self, iterator: Any) -> None:
        """Note that what an iterator yields is cut into parts for the ranks."""
        # On other ranks than the first, accelerate's dispatcher has no iterator: it passes None.
        if hasattr(iterator, "__dict__"):
            self._own(iterator).is_dispatched = True

    def dispatching(self, parts: Any) -> Any:
        """Return the parts that this rank computes, and note each."""
        # Filled below: batches need a weak reference to the generator that yields them.
        place: list[Any] = []
        made = self._noting(parts, place, next(self._epochs))
        place.append(weakref.ref(made))
        return made

    def _noting(self, parts: Any, place: list[Any], epoch: int) -> Any:
        for data in parts:
            self._note(Fetched(place[0], epoch, None, data))
            yield data

    def _own(self, iterator: Any) -> _Own:
        """Return what is known of an iterator: each is an epoch of its own."""
        own: _Own | None = iterator.__dict__.get(_OWN)
        if own is None:
            own = iterator.__dict__[_OWN] = _Own(next(self._epochs))
        return own

    def handed_out(self, tensors: list[Any]) -> Fetched | None:
        """Return what a loader handed out, if it is one of the very tensors that are computed."""
        if self._keeps:  # in a dry run all are joined alike
            return None
        for fetched in self.recent:
            if fetched.holds(tensors):
                self.recent.remove(fetched)
                fetched.data = None
                return fetched
        return None

    def join(self, read: ReadBatch, last: Fetched | None) -> Fetched | None:
        """Return what a loader handed out for a batch, once: where several did, that of the last
        batch, else the newest. An evaluation on the training data hands out the same batches.
        """
        if read.ids is None:
            return None
        # What was computed is none of the very tensors, such as a copy on a device: ids tell it.
        while self.recent and not self._keeps:
            self._wait(self.recent.popleft())
        key = fingerprint(read.ids)
        alike = self._waiting.get(key)
        if not alike:
            return None
        found = alike[-1]
        if last is not None:
            found = next((each for each in alike if each.epoch == last.epoch), found)
        alike.remove(found)
        if not alike:
            del self._waiting[key]
        return found

    def rest(self, last: Fetched, computed: list[Fetched]) -> Iterator[Fetched]:
        """Yield what is left of the epoch of the last batch that was trained: what was handed out
        and not computed, then what the loader still has.
        """
        iterator = last.iterator()
        waiting = [each for each in self._taken() if each.epoch == last.epoch]
        yield from (each for each in waiting if each not in computed)
        while iterator is not None:
            try:
                next(iterator)
            except StopIteration:
                return
            yield from self._taken()

    def _taken(self) -> list[Fetched]:
        """Return and forget what was handed out and not computed."""
        taken = [each for alike in self._waiting.values() for each in alike]
        self._waiting.clear()
        return taken


class _Own:
    """What is known of an iterator of a loader."""

    def __init__(self, epoch: int) -> None:
        self.epoch, self.is_dispatched = epoch, False
        self.asked: collections.deque[list[int] | None] = collections.deque()


def _numbers(index: Any) -> list[int] | None:
    """Return sample numbers; None for those of a stream."""
    try:
        return [operator.index(each) for each in (index if isinstance(index, list) else [index])]
    except TypeError:
        return None
