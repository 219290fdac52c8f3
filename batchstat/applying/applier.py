"""Cuts and regroups the batches of a command as its dry run has checked it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any

from .cutting import from_json
from .loaders import (
    BEFORE,
    KEY,
    TODAY,
    CuttingCollate,
    SharedCut,
    is_installed,
    patch_loaders,
)
from .regrouping import Regrouper
from .step_numbers import StepNumbers
from .step_state import WHOLE_STEPS

_MOST_JUDGED = 50  # steps with cut batches after which it is known whether they take less time
_SETTLED = 2  # steps that allocate and compile
_VERSIONS = ("torch", "transformers", "accelerate", "lightning", "trl")


class PacedCut:
    """A cut, and the seconds of steps for each token that their batches had before it."""

    def __init__(self) -> None:
        self.n_steps = 0
        self.shared = SharedCut()
        self._whole: list[float] = []
        self._cut: list[float] = []
        self._tokens, self._is_cut, self._began = 0, False, time.perf_counter()  # of the step

    def begin(self, iterator: Any) -> None:
        """Let the iterator of a loader cut what it collates."""
        iterator._collate_fn = CuttingCollate(iterator._collate_fn, self.shared)

    def note_tokens(self, before: int, after: int) -> None:
        """Note the tokens of a batch of the step."""
        self._tokens += before
        self._is_cut |= after < before

    def note_step(self) -> str:
        """Note that a step has ended: turn cutting on after the first steps. Return why it is
        turned off; empty where it is not. Nothing but time depends on it, so that each rank
        decides alone.
        """
        self.n_steps += 1
        now = time.perf_counter()
        if self._tokens and self.n_steps > _SETTLED:
            pace = (now - self._began) / self._tokens
            (self._cut if self._is_cut else self._whole).append(pace)
        self._tokens, self._is_cut, self._began = 0, False, now
        if self.n_steps == WHOLE_STEPS:
            self.shared.turn(on=True)
        # Steps with the first batch of a shape take longer, and count as they come.
        if len(self._cut) != _MOST_JUDGED or not self._whole:
            return ""
        if statistics.median(self._cut) < statistics.median(self._whole):
            return ""
        self.shared.turn(on=False)
        return "%d steps with cut batches took as long as those before" % _MOST_JUDGED


class Applier:
    """What applies a verdict in this process."""

    is_checking, check = False, None  # as a dry run has them

    def __init__(self, verdict_file: str, ranks: Any) -> None:
        """Read a verdict. `ranks` is that of the log."""
        self._ranks, self._file = ranks, verdict_file
        self._verdict: dict[str, Any] | None = None
        self._paced: PacedCut | None = None  # once a loader that is cut was iterated
        self._regrouper: Regrouper | None = None  # once one that is regrouped was
        self._n_in_step: Any = None
        self._why_another = ""  # why the verdict is of another training; empty if it is not
        try:
            with open(verdict_file, encoding="utf-8") as stream:
                self._verdict = json.load(stream)
        except (OSError, ValueError) as error:
            self._say("its verdict cannot be read: %s" % error)

    def patch(self, torch: Any, patches: Any, n_in_step: Any) -> None:
        """Patch the loaders of torch. `n_in_step` returns the batches since the last step."""
        self._n_in_step = n_in_step
        patch_loaders(torch, patches, self._begin, self._begin_epoch, self._follow)

    def _say(self, why: str) -> None:
        print("batchstat: nothing is applied: %s" % why, file=sys.stderr)

    def _begin(self, iterator: Any) -> None:
        """Let an iterator collate batches that are cut, if its loader is the one of the verdict."""
        verdict = self._verdict
        if verdict is None or verdict["key"] != iterator.__dict__[KEY]:
            return
        if self._why_another:
            return
        self._why_another = _why_another(verdict["environment"], self._ranks()[1])
        if self._why_another:
            self._say(self._why_another + ": the next run checks it again")
            with contextlib.suppress(OSError):  # another rank may have removed it
                os.remove(self._file)
        elif verdict["cut"] is not None:
            if self._paced is None:
                self._paced = PacedCut()
                self._paced.shared.set(from_json(verdict["cut"]))
            self._paced.begin(iterator)

    def _begin_epoch(self, iterator: Any) -> None:
        """Let an iterator ask for samples that are regrouped, if its loader is that one."""
        import torch

        verdict = self._verdict
        if verdict is None or verdict["key"] != iterator.__dict__[KEY]:
            return
        # An evaluation on the same loader may be of one rank alone, and ranks have to agree.
        if verdict["regroup"] is not None and torch.is_grad_enabled():
            if self._regrouper is None:
                folder = os.path.dirname(self._file)
                self._regrouper = Regrouper.of_verdict(verdict["regroup"], folder, self._ranks)
                self._regrouper.why_not = self._why_another  # which other ranks may not find
            self._regrouper.begin(iterator, self._n_in_step())

    def _follow(self, iterator: Any, data: Any, before: int, after: int) -> None:
        """Note a batch, which may have been cut."""
        if after < before:
            iterator.__dict__[BEFORE] = before
        today = 0
        if isinstance(iterator._sampler_iter, StepNumbers) and self._regrouper is not None:
            today = self._regrouper.note_batch(iterator._sampler_iter, data)
            if today:
                iterator.__dict__[TODAY] = today
        if self._paced is not None:
            self._paced.note_tokens(today or before, after)

    @property
    def n_steps(self) -> int:
        """The steps that were noted while a loader was regrouped."""
        return 0 if self._regrouper is None else self._regrouper.n_steps

    def note_lost_step(self) -> None:
        """Note that a step has ended of which nothing is known."""
        if self._regrouper is not None:
            self._regrouper.fail(RuntimeError("the recorder has failed"))
            self._regrouper.note_step(0, None)

    def note_step(self, n_batches: int, last: Any) -> None:
        """Note that a step has ended, with so many batches, the `last` one as a loader handed it
        out; None where that is not known.
        """
        why_off = "" if self._paced is None else self._paced.note_step()
        if why_off:
            print("batchstat: nothing more is cut: %s" % why_off, file=sys.stderr)
        if self._regrouper is not None:
            iterator = last and last.iterator and last.iterator()
            sampler = getattr(iterator, "_sampler_iter", None)
            is_live = sampler is not None and sampler is self._regrouper.live
            self._regrouper.note_step(n_batches, last.place + 1 if is_live else None)


def environment_of(world_size: int) -> dict[str, Any]:
    """Return what a verdict holds for: versions, ranks, and digests of the files that the command
    has imported, outside of installed packages.
    """
    files = {getattr(each, "__file__", None) for each in list(sys.modules.values())}
    # Modules of torch name files that there are not.
    own = {f for f in files if isinstance(f, str) and os.path.isfile(f) and not is_installed(f)}
    digests = {file: digest_of(file) for file in sorted(map(os.path.abspath, own))}
    return {"versions": _versions(), "world_size": world_size, "files": digests}


def _versions() -> dict[str, str]:
    modules = {name: getattr(sys.modules.get(name), "__version__", None) for name in _VERSIONS}
    versions = {name: str(version) for name, version in modules.items() if version}
    return {"Python": "%d.%d.%d" % sys.version_info[:3], **versions}


def digest_of(file: str) -> str:
    """Return a digest of a file's content; empty where it cannot be read."""
    try:
        with open(file, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError:
        return ""


def _why_another(known: Mapping[str, Any], world_size: int) -> str:
    """Return what is not as it was in the dry run; empty if all is."""
    if known["world_size"] != world_size:
        return "the dry run had another number of ranks, %d" % known["world_size"]
    here = _versions()
    for name, version in known["versions"].items():
        if here.get(name, version) != version:
            return "the dry run had %s %s" % (name, version)
    changed = [file for file, digest in known["files"].items() if digest_of(file) != digest]
    return "%s has changed since the dry run" % changed[0] if changed else ""
