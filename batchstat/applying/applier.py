"""Cuts the batches of a command as a dry run has checked it, or makes these checks."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from . import verdict
from .checks import LoopCheck, check_trainer
from .cutting import Cut, UnknownError
from .learning import Learner
from .loaders import KEY, CuttingCollate, patch_loaders

WHOLE_STEPS = 5  # the first steps, which are not cut: their seconds are compared with later ones
RANK_FILE = "verdict-%05d.json"  # what a rank writes; the starting process joins them
UNENDED = "the dry run ended within its checks"


class Applier:
    """What cuts batches in this process; in a dry run, what learns and checks how."""

    def __init__(self, folder: str, multiple: int, verdict_file: str) -> None:
        """Write into a folder, in a dry run; read the verdict of one otherwise."""
        self.is_checking = False  # whether the loop computes for the checks
        self.check: LoopCheck | None = None  # of a loop, once it began
        self._folder, self._multiple = folder, multiple
        self._learners: dict[str, Learner] = {}
        self._last_key = ""  # of the loader that yielded last
        self._verdict: dict[str, Any] | None = None
        self._is_first: bool = True  # whether no iterator of a loader that is cut has begun
        if verdict_file:
            try:
                self._verdict = verdict.read(verdict_file)
            except (OSError, ValueError) as error:
                self._say("its verdict cannot be read: %s" % error)

    def patch(self, torch: Any, patches: Any) -> None:
        """Patch the loaders of torch."""
        patch_loaders(torch, patches, self._begin)

    def _say(self, why: str) -> None:
        print("batchstat: nothing is cut: %s" % why, file=sys.stderr)

    def _begin(self, iterator: Any, loader: Any) -> None:
        """Let an iterator collate batches that are cut, if its loader is the one of the verdict."""
        self._last_key = iterator.__dict__[KEY]
        if self._verdict is None or self._verdict["key"] != self._last_key:
            return
        if why := verdict.why_another(self._verdict, _world_size()):
            self._verdict = None
            self._say(why)
            return
        n_whole = 0
        if self._is_first:
            # Each worker makes its share of the first batches.
            n_whole = -(-WHOLE_STEPS * self._verdict["per_step"] // max(1, loader.num_workers))
            self._is_first = False
        cut = verdict.from_json(self._verdict["cut"])
        iterator._collate_fn = CuttingCollate(iterator._collate_fn, cut, n_whole)

    # --- in a dry run ----------------------------------------------------------------------------
    def note(self, iterator: Any, data: Any, parts: Any, pad_token_id: Any, extra: Any) -> None:
        """Look at a batch of an iterator, None for the last one; as `Learner.note` does."""
        key = self._last_key if iterator is None else iterator.__dict__.get(KEY, "")
        learner = self._learners.get(key)
        if learner is None:
            learner = self._learners[key] = Learner(pad_token_id)
        learner.note(data, parts, extra)

    def _learnt(self, on_device: bool) -> tuple[str, Learner, Cut]:
        if len(self._learners) != 1:
            raise UnknownError("the batches of one loader were not seen")
        ((key, learner),) = self._learners.items()
        return key, learner, learner.cut(self._multiple, on_device)

    def begin_loop(
        self, model: Any, optimizers: Any, widths_of: Any, per_step: int, stop: Any
    ) -> bool:
        """Begin to check a loop, which then computes what `check.next_batch` gives it; return
        whether there is anything to check.
        """
        found = self._ready(model, per_step)
        if found is None:
            return False
        batches, _ = found

        def end(why_not: str, apart: float) -> None:
            self._write({**self._rank, "why_not": why_not, "apart": apart})
            stop("its checks have ended")

        self.check = LoopCheck(model, optimizers, batches, widths_of, end)
        self.is_checking = True
        return True

    def check_trainer(self, model: Any, per_step: int) -> None:
        """Check a Trainer, by what was kept with its batches: what computes one."""
        found = self._ready(model, per_step)
        if found is not None:
            batches, computes = found
            self.is_checking = True
            why_not, apart = check_trainer(model, batches, computes[0])
            self._write({**self._rank, "why_not": why_not, "apart": apart})

    def _ready(self, model: Any, per_step: int) -> tuple[list[Any], list[Any]] | None:
        """Return what to check on this rank: batches, as (as it came, cut), and what was kept with
        them; None where a rank has nothing, as this one's verdict then says.
        """
        on_device = next((p.device.type != "cpu" for p in model.parameters()), False)
        key, cut, why, candidates = "", None, "", []
        try:
            key, learner, cut = self._learnt(on_device)
            candidates = [learner.narrowest, learner.widest]
            batches = [(each.data, cut(each.data)[0]) for each in candidates]
        except UnknownError as error:
            why = str(error)
        self._rank = {
            "key": key,
            "cut": None if cut is None else verdict.to_json(cut),
            "per_step": per_step,
            "why_not": why or UNENDED,
            "apart": 0.0,
            "environment": verdict.environment(_world_size()),
        }
        self._write(self._rank)
        if not _all_agree(not why):
            if not why:
                self._write({**self._rank, "why_not": "another rank has nothing to cut"})
            return None
        return batches, [each.extra for each in candidates]

    def refuse(self, why: str) -> None:
        """Write that nothing is cut, where no check can begin."""
        self._write(
            {
                "key": "",
                "cut": None,
                "per_step": 1,
                "why_not": why,
                "apart": 0.0,
                "environment": verdict.environment(_world_size()),
            }
        )

    def _write(self, content: dict[str, Any]) -> None:
        path = os.path.join(self._folder, RANK_FILE % _rank())
        with open(path + ".new", "w", encoding="utf-8") as stream:
            json.dump(content, stream)
        os.replace(path + ".new", path)


def _distributed() -> Any:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def _rank() -> int:
    distributed = _distributed()
    return int(os.environ.get("RANK", "0")) if distributed is None else distributed.get_rank()


def _world_size() -> int:
    distributed = _distributed()
    if distributed is None:
        return int(os.environ.get("WORLD_SIZE", "1"))
    return int(distributed.get_world_size())


def _all_agree(holds: bool) -> bool:
    """Return whether something holds on all ranks, which all of them ask."""
    distributed = _distributed()
    if distributed is None or distributed.get_world_size() == 1:
        return holds
    import torch

    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    held = torch.tensor([int(holds)], device=device)
    distributed.all_reduce(held, op=distributed.ReduceOp.MIN)
    return bool(held.item())
