"""Loaders of torch whose batches are cut: which they are, and where they collate."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from .cutting import Cut, UnknownError, from_json, to_json

KEY, BEFORE, TODAY = "_batchstat_key", "_batchstat_before", "_batchstat_today"
"""Attributes of an iterator of a loader: what tells its loader from others; the tokens that the
batch had which it yields, if it was cut; and those of the one in whose place it comes, if its step
was regrouped.
"""
_OF_NO_USER = ("torch", "batchstat_recorder", "batchstat_applying")
_MOST_BYTES = 65_536  # of a cut, as JSON
_MOST_FRAMES = 3  # whose functions tell a loader from others that are made by the same line


class CutBatch:
    """A batch on its way from where it was collated, such as a worker, to the loop."""

    def __init__(self, data: Any, before: int, after: int) -> None:
        self.data, self.before, self.after = data, before, after

    def pin_memory(self, *device: Any) -> CutBatch:
        """Pin the batch; torch calls it of whatever has this method."""
        from torch.utils.data._utils.pin_memory import pin_memory

        return CutBatch(pin_memory(self.data, *device), self.before, self.after)


class SharedCut:
    """A cut that the workers of a loader learn of while they run, and whether it is on."""

    def __init__(self) -> None:
        import torch

        # Whether it is on; then its JSON.
        self._memory = torch.zeros(_MOST_BYTES, dtype=torch.uint8).share_memory_()
        self._cut: Cut | None = None  # as this process has read it

    def set(self, cut: Cut) -> None:
        """Say which cut it is."""
        content = json.dumps(to_json(cut)).encode()
        if len(content) >= _MOST_BYTES - 1:
            raise UnknownError("its batches have too many arrays")
        for place, value in enumerate(content, 1):
            self._memory[place] = value

    def turn(self, on: bool) -> None:
        """Turn it on or off."""
        self._memory[0] = int(on)

    def of_batch(self, data: Any) -> CutBatch:
        """Return a batch, cut if the cut is known and on."""
        if self._cut is None and self._memory[1]:
            content = bytes(self._memory[1:].tolist()).rstrip(b"\0")
            self._cut = from_json(json.loads(content))
        if self._cut is None:
            return CutBatch(data, 0, 0)
        narrow, before, after = self._cut(data)
        is_on = bool(self._memory[0])
        return CutBatch(narrow, before, after) if is_on else CutBatch(data, before, before)


class CuttingCollate:
    """Collates as a loader does, and cuts the batch: in the process that collates, before it is
    pinned.
    """

    def __init__(self, collate: Any, cut: SharedCut) -> None:
        self.collate, self._cut = collate, cut

    def __call__(self, samples: Any) -> CutBatch:
        """Return the batch of samples."""
        data = self.collate(samples)
        try:
            return self._cut.of_batch(data)
        except Exception as error:  # the loop gets the batch as it came
            if not isinstance(error, UnknownError):
                print("batchstat: a batch was not cut: %r" % error, file=sys.stderr)
            return CutBatch(data, 0, 0)


def patch_loaders(torch: Any, patches: Any, begin: Any, begin_epoch: Any, follow: Any) -> None:
    """Give each iterator of a loader its `KEY`. Call `begin(iterator)` before its workers start,
    `begin_epoch(iterator)` before samples are drawn, and `follow(iterator, data, before, after)` of
    each batch, with its tokens where it may have been cut.
    """
    from torch.utils.data import dataloader

    def init(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.__dict__.setdefault(KEY, _maker())

    def safely(function: Any, iterator: Any, *args: Any) -> None:
        try:
            function(iterator, *args)
        except Exception as error:  # the command must go on as it would without
            print("batchstat: a loader is left as it is: %r" % error, file=sys.stderr)

    def init_iterator(original: Any, self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        original(self, loader, *args, **kwargs)
        self.__dict__[KEY] = key_of(loader)
        safely(begin, self)
        if not self._num_workers:  # one with workers goes on to `_reset`
            safely(begin_epoch, self)

    def reset(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        safely(begin_epoch, self)

    def following(original: Any, self: Any) -> Any:
        batch = original(self)
        data, before, after = batch, 0, 0
        if type(batch) is CutBatch:
            data, before, after = batch.data, batch.before, batch.after
        safely(follow, self, data, before, after)
        return data

    patches.wrap(torch.utils.data.DataLoader, "__init__", init)
    patches.wrap(dataloader._BaseDataLoaderIter, "__init__", init_iterator)
    patches.wrap(dataloader._BaseDataLoaderIter, "_reset", reset)
    patches.wrap(dataloader._BaseDataLoaderIter, "__next__", following)


def draws_for_samples(iterator: Any) -> bool:
    """Return whether an iterator's sampler draws by torch's random numbers for all."""
    sampler = getattr(iterator, "_index_sampler", None)
    inner = getattr(sampler, "sampler", sampler)  # that of a batch sampler
    kinds = {kind.__name__ for kind in type(inner).__mro__}
    draws = {"RandomSampler", "WeightedRandomSampler", "SubsetRandomSampler"} & kinds
    # accelerate's makes a generator of its own when it begins.
    is_seeded = "SeedableRandomSampler" in kinds or getattr(inner, "generator", None) is not None
    return bool(draws) and not is_seeded


def key_of(loader: Any) -> str:
    """Return what tells a loader from others, the same when the command starts again: the size of
    its data set, its collate function, and the place that made it.
    """
    try:
        size = str(len(loader.dataset))
    except Exception:  # a stream, or the script's own data set
        size = "stream"
    collate = loader.collate_fn
    name = getattr(collate, "__qualname__", type(collate).__qualname__)
    return "%s samples, %s, %s" % (size, name, loader.__dict__.get(KEY, "?"))


def _maker() -> str:
    """Return the line of the user's own code that makes a loader, and what it calls for that."""
    names: list[str] = []
    frame: Any = sys._getframe(2)
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if name == "skip_first_batches":  # of accelerate: the rest of a loader's first epoch
            continued = getattr(frame.f_locals.get("dataloader"), KEY, None)
            if continued is not None:
                return str(continued)
        if not is_installed(file):
            return "%s:%d %s" % (os.path.basename(file), frame.f_lineno, " ".join(names))
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in _OF_NO_USER and len(names) < _MOST_FRAMES:
            names.append(name)
        frame = frame.f_back
    return " ".join(names)


def is_installed(file: str) -> bool:
    """Return whether a file is of Python or of an installed package, not of the user's own code."""
    if file.startswith("<") or "site-packages" in file or "dist-packages" in file:
        return True
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return os.path.abspath(file).startswith((own, os.path.dirname(os.__file__)))
