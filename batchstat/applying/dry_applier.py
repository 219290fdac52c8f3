"""Learns in a dry run how the batches of a command can be cut and regrouped, and checks it."""

from __future__ import annotations

import json
import os
from collections import deque
from typing import Any

from .applier import environment_of
from .checks import (
    Checks,
    Found,
    LoopCheck,
    check_trainer,
    checked_of,
    why_left_alone,
    why_not_regrouped,
)
from .cutting import Cut, UnknownError, arrays_by_place, replaced, to_json
from .learning import Learner
from .loaders import KEY, draws_for_samples, patch_loaders
from .outputs import Checked
from .regroup_checks import ReadLoader, RegroupedStep, meets_in_batches, regrouped_step
from .regrouping import LENGTHS_FILE, Way, set_multiple
from .step_state import SHARED_NUMBERS, all_agree, drops_now

RANK_FILE = "verdict-%05d.json"  # what a rank writes; the starting process joins them
UNENDED = "the command ended within the checks, which take some ten steps of one epoch"


class DryApplier:
    """What looks at the batches of a dry run, computes some of them, and writes its verdict."""

    n_steps = 0  # as what applies has it

    def __init__(self, folder: str, multiple: int, ranks: Any) -> None:
        """Write into a folder. `ranks` is that of the log."""
        self.is_checking = False  # whether the loop computes for the checks
        self.check: LoopCheck | None = None  # of a loop, once it began
        self._folder, self._multiple, self._ranks = folder, multiple, ranks
        self._learners: dict[str, Learner] = {}
        self._loaders: dict[str, ReadLoader] = {}  # of the last iterator of each
        self._last_key = ""  # of the loader that was iterated last
        self._draws = False  # whether it draws samples by torch's own random numbers
        self._numbers: deque[Any] = deque()  # of batches that were yielded and not noted
        self._compute: Any = None  # of a Trainer, as its last step did
        # What this rank says of its verdict.
        self._rank: dict[str, Any] = {"key": "", "cut": None, "ways": [], "ends": []}
        self._rank.update(why_uncut="", why_not_regrouped="")

    def patch(self, torch: Any, patches: Any, _n_in_step: Any) -> None:
        """Patch the loaders of torch."""

        def begin(iterator: Any) -> None:
            self._last_key = iterator.__dict__[KEY]
            self._draws = draws_for_samples(iterator)

        def begin_epoch(iterator: Any) -> None:
            self._numbers.clear()
            before = self._loaders.get(iterator.__dict__[KEY])
            loader = self._loaders[iterator.__dict__[KEY]] = ReadLoader(iterator, self._ranks())
            loader.n_begun = (before.n_begun if before else 0) + torch.is_grad_enabled()

        def follow(iterator: Any, _data: Any, _before: int, _after: int) -> None:
            loader = self._loaders[iterator.__dict__[KEY]]
            self._numbers.append(loader.steps and loader.steps.handed.popleft().numbers)

        patch_loaders(torch, patches, begin, begin_epoch, follow)

    def note_step(self, n_batches: int, last: Any) -> None:
        """Ignore a step: nothing is applied."""

    def note_lost_step(self) -> None:
        """Ignore it."""

    def note(
        self,
        iterator: Any,
        data: Any,
        parts: Any,
        pad_token_id: Any,
        compute: Any,
        numbers: Any = None,
    ) -> bool:
        """Look at a batch of an iterator as `Learner.note` does; of None, it is that of a Trainer,
        which can `compute` a step.
        """
        if iterator is None:
            numbers = self._numbers.popleft() if self._numbers else None
            self._compute = compute
        key = self._last_key if iterator is None else iterator.__dict__.get(KEY, "")
        if iterator is None:  # accelerate's loader has moved what its collator made to the device
            arrays = arrays_by_place(data, anywhere=True)
            data = replaced(data, {place: array.cpu() for place, array in arrays})
        learner = self._learners.get(key)
        if learner is None:
            learner = self._learners[key] = Learner(pad_token_id)
        return learner.note(data, parts, None, numbers)

    def note_computed(self, iterator: Any, numbers: Any, data: Any) -> None:
        """Note the lengths of a batch that the loop has computed before others were looked at."""
        learner = self._learners.get(iterator.__dict__.get(KEY, ""))
        if learner is not None:
            learner.note_lengths(numbers, data)

    def begin_loop(
        self, model: Any, optimizers: Any, given_of: Any, stop: Any, accumulation: int, tail: bool
    ) -> bool:
        """Begin to check a loop, which then computes what `check.next_batch` gives it; return
        whether there is anything to check. `given_of` is that of `checked_of`; a step has
        `accumulation` batches, 0 where that varies, and with a `tail` the last of an epoch fewer.
        """
        batches, step = self._ready(model, given_of, accumulation, tail)
        if not batches and step is None:
            return False

        def end(found: Found) -> None:
            self._write_found(found, step)
            stop("its checks have ended")

        groups = [group for each in optimizers for group in each.param_groups]
        parameters = [p for group in groups for p in group["params"]]
        checks = Checks(model, parameters, batches, step and step.step)
        self.check = LoopCheck(checks, optimizers, accumulation, end)
        self.is_checking = True
        return True

    def check_trainer(self, model: Any, given_of: Any, accumulation: int, tail: bool) -> None:
        """Check a Trainer, by what computes a step."""
        batches, step = self._ready(model, given_of, accumulation, tail)
        if batches or step is not None:
            self.is_checking = True
            checks = Checks(model, list(model.parameters()), batches, step and step.step)
            self._write_found(check_trainer(checks, model, self._compute), step)

    def _write_found(self, found: Found, step: RegroupedStep | None) -> None:
        if step is not None:
            self._rank["ways"] = [
                {"way": way._asdict(), "why_not": why, "apart": apart}
                for way, (why, apart) in zip(step.ways, found.ways)
            ]
        why_not = found.why_not or self._rank["why_uncut"]
        self.write(why_not=why_not, apart=found.apart, outputs=found.outputs)

    def _ready(
        self, model: Any, given_of: Any, accumulation: int, tail: bool
    ) -> tuple[list[Checked], RegroupedStep | None]:
        """Return the batches to check on this rank, and the step; nothing where a rank has none."""
        on_device = any(each.device.type != "cpu" for each in model.parameters())
        why = "batches of several loaders were read, and which of them trains is not known"
        if not self._learners:
            why = "its loader had no batch left to look at behind the first steps"
        elif len(self._learners) == 1:
            ((self._rank["key"], learner),) = self._learners.items()
            why = learner.why_not or why_left_alone(model, bool(self._multiple))
        if "" in self._learners:
            why = "its loader iterates by itself, as StatefulDataLoader of torchdata does"
        if self._draws and not on_device and drops_now():
            why = SHARED_NUMBERS
        self.write(why_not=why)
        if not all_agree(not why):
            self.write(why_not=why or "another rank has batches that cannot be changed")
            return [], None
        batches, cut = self._ready_to_cut(learner, on_device, given_of)
        step = None
        try:
            if why := why_not_regrouped(model):
                raise UnknownError(why)
            loader, multiple = (
                self._loaders[self._rank["key"]],
                learner.multiple(self._multiple, on_device),
            )
            sets_multiple = on_device and cut is None
            if sets_multiple and not set_multiple(loader.collate, multiple):
                why = "new widths take a device time, and its collator has no pad_to_multiple_of"
                raise UnknownError(why)
            widths, in_turns = learner.fixed_widths, meets_in_batches(model)
            way = Way(
                over_ranks=False,
                equal_sizes=False,
                accumulation=accumulation,
                tokens_per_batch=1,
                multiple=multiple,
                widths=widths,
                in_turns=in_turns,
                makes_tail=tail,
                sets_multiple=sets_multiple,
            )
            step = regrouped_step(
                loader,
                learner,
                cut,
                way,
                learner.lengths.numbers,
                self._ranks(),
                lambda data: given_of(data)[1],
            )
            self._rank["ends"] = [[list(place), value] for place, value in step.ends]
            if not self._ranks()[0]:
                step.lengths.tofile(os.path.join(self._folder, LENGTHS_FILE))
        except UnknownError as error:
            self._rank["why_not_regrouped"] = str(error)
        self.write(why_not=UNENDED if batches or step else self._rank["why_uncut"])
        return batches, step

    def _ready_to_cut(
        self, learner: Learner, on_device: bool, given_of: Any
    ) -> tuple[list[Checked], Cut | None]:
        cut: Cut | None = None
        try:
            cut = learner.cut(self._multiple, on_device)
            batches = [checked_of(each, cut, given_of) for each in learner.checked]
            why = ""
        except UnknownError as error:
            why = str(error)
        if not all_agree(not why):
            self._rank["why_uncut"] = why or "another rank has nothing to cut"
            return [], None
        assert cut is not None
        self._rank.update(cut=to_json(cut), why_uncut="")
        return batches, cut

    def write(self, **found: Any) -> None:
        """Write what was found, such as `why_not`, for the verdict."""
        environment = environment_of(self._ranks()[1])
        content = {**self._rank, "apart": 0.0, "outputs": 0, "environment": environment, **found}
        path = os.path.join(self._folder, RANK_FILE % self._ranks()[0])
        with open(path + ".new", "w", encoding="utf-8") as stream:
            json.dump(content, stream)
        os.replace(path + ".new", path)
