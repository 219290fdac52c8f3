"""Cuts the padding of a training in this program, once its first steps show how it computes."""

import copy
import sys
from collections import deque
from typing import Any

from batchstat.applying.applier import PacedCut
from batchstat.applying.checks import checked_of, why_left_alone, why_not_regrouped
from batchstat.applying.cutting import Cut, UnknownError
from batchstat.applying.learning import Learner
from batchstat.applying.loaders import draws_for_samples, patch_loaders
from batchstat.applying.outputs import outputs_apart
from batchstat.applying.step_state import (
    LEAST,
    SHARED_NUMBERS,
    WHOLE_STEPS,
    Precision,
    all_agree,
    drops_now,
)
from batchstat.errors import OptionError, arguments_named
from batchstat.parameters import whole_number
from batchstat.recording.recorder.arguments import (
    WholeNumbers,
    arguments_by_name,
    as_array,
    sign_of,
)
from batchstat.recording.recorder.devices import Clock
from batchstat.recording.recorder.forward import Forward, Model
from batchstat.recording.recorder.forwards import MOST_OUTPUTS, outputs_with_graph
from batchstat.recording.recorder.handing import Handing, holds_ids
from batchstat.recording.recorder.patches import Patches
from batchstat.recording.recorder.trainers import why_too_old
from batchstat.training.watched_steps import (
    WatchedBatch,
    WatchedSteps,
    token_weights,
    why_unseen,
)

_MOST_BATCHES = 512  # that wait for a forward


@arguments_named()
def apply(
    trainer_or_loader: Any,
    model: Any = None,
    *,
    pad_to_multiple_of: int | None = None,
    gradient_accumulation_steps: int | None = None,
) -> Any:
    """Cut the padding out of the batches of a training in this program, and regroup its steps.

    The first five steps pass as they came, and are watched: what is padding, what the model
    computes of two of these batches and of them cut, and whether padding has a part in the loss. A
    Trainer then computes a step as it came and regrouped; of a loop, the gradients of its logits
    show whether all tokens of a step weigh the same. What keeps the training the same begins after
    them, and a line says so or why not.

    Example:
        Before `trainer.train()`: `batchstat.apply(trainer)`. In a loop, before
        `accelerator.prepare`: `loader = batchstat.apply(loader, model)`.

        >>> batchstat.apply("train.py")
        Traceback (most recent call last):
        batchstat.errors.OptionError: str is neither a Trainer nor a DataLoader: pass one

    Args:
        trainer_or_loader: a Trainer of transformers (4.40 and later) or of a subclass, or a
            DataLoader of torch.
        model: what the loop of the loader trains.
        pad_to_multiple_of: the multiple to which widths are rounded up; by default the one that
            the batches show, and 64 on a device.
        gradient_accumulation_steps: batches of each rank in a step of a loop, 1 by default; a
            Trainer says it itself.

    Returns:
        What was passed.

    Raises:
        OptionError: neither of these, a loader without its model, or a version that is too old.
    """
    multiple = 0
    if pad_to_multiple_of is not None:
        multiple = whole_number("pad_to_multiple_of", pad_to_multiple_of)
    accumulation = 1
    if gradient_accumulation_steps is not None:
        accumulation = whole_number("gradient_accumulation_steps", gradient_accumulation_steps)
    torch: Any = sys.modules.get("torch")
    if hasattr(trainer_or_loader, "get_train_dataloader") and model is None:
        trainer = trainer_or_loader
        if why := why_too_old():
            raise OptionError(why, "install that or later")
        steps = WatchedSteps(trainer.args.gradient_accumulation_steps, trainer)
        watched = _WatchedTraining(trainer.model, multiple, steps)
        get_loader = trainer.get_train_dataloader

        def get_train_dataloader() -> Any:
            watched.loader = get_loader()
            return watched.loader

        trainer.get_train_dataloader = get_train_dataloader
    elif torch is None or not isinstance(trainer_or_loader, torch.utils.data.DataLoader):
        kind = type(trainer_or_loader).__name__
        raise OptionError(f"{kind} is neither a Trainer nor a DataLoader", "pass one")
    elif not isinstance(model, torch.nn.Module):
        raise OptionError("a loader without its model", "pass batchstat.apply(loader, model)")
    else:
        watched = _WatchedTraining(model, multiple, WatchedSteps(accumulation))
        watched.loader = trainer_or_loader
    watched.begin()
    return trainer_or_loader


class _WatchedTraining:
    """A training whose first steps are watched, and whose batches are cut after them."""

    def __init__(self, model: Any, multiple: int, steps: WatchedSteps) -> None:
        import torch

        self.loader: Any = None
        self._module, self._multiple, self._steps = model, multiple, steps
        self._model = Model(torch, model, None)
        self._batches: deque[WatchedBatch] = deque(maxlen=_MOST_BATCHES)
        self._paced, self._patches, self._clock = PacedCut(), Patches(), Clock()
        self._hooks: list[Any] = []
        self._is_watching = True
        self._draws = False  # whether its loader draws samples by torch's own random numbers

    def begin(self) -> None:
        """Watch. Raises OptionError for a torch that tells of no steps."""
        import torch
        from torch.optim import optimizer
        from torch.utils.data import dataloader

        if not hasattr(optimizer, "register_optimizer_step_post_hook"):
            raise OptionError(f"torch {torch.__version__} is too old", "install 2.1 or later")
        patch_loaders(
            torch,
            self._patches,
            self._begin_iterator,
            self._begin_epoch,
            self._follow,
        )
        self._patches.wrap(dataloader._BaseDataLoaderIter, "__next__", self._following)
        # Last of all hooks, by which others may change what the model is given.
        before = self._module.register_forward_pre_hook(self._note_forward, with_kwargs=True)
        after = self._module.register_forward_hook(self._note_outputs)
        step = optimizer.register_optimizer_step_post_hook(lambda *_: self._note_step())
        self._hooks = [before, after, step]

    def _is_own(self, iterator: Any) -> bool:
        # accelerate makes another loader of the same data set and collate function.
        own = self.loader
        return own is not None and iterator._dataset is own.dataset

    def _begin_iterator(self, iterator: Any) -> None:
        if self._is_own(iterator) and iterator._collate_fn is self.loader.collate_fn:
            self._paced.begin(iterator)
            self._draws |= draws_for_samples(iterator)

    def _begin_epoch(self, iterator: Any) -> None:
        import torch

        # An evaluation on the same loader may be of one rank alone, and ranks have to agree.
        if self._is_own(iterator) and torch.is_grad_enabled():
            self._steps.begin_epoch(iterator)

    def _follow(self, iterator: Any, data: Any, before: int, after: int) -> None:
        today = self._steps.follow(iterator, data)
        self._paced.note_tokens(today or before, after)

    def _following(self, original: Any, iterator: Any) -> Any:
        data = original(iterator)
        if self._is_watching and self._is_own(iterator):
            # The loop may take arrays out, or change them.
            self._batches.append(WatchedBatch(copy.deepcopy(data), self._steps.numbers))
        return data

    def _note_forward(self, module: Any, args: Any, kwargs: Any) -> None:
        import torch

        if not self._is_watching or not torch.is_grad_enabled():
            return
        numbers = WholeNumbers(arguments_by_name(module, args, kwargs))
        if not numbers.hold_ids:
            return
        forward = Forward(self._model, numbers, self._clock.now())
        parts = forward.read()
        for batch in self._batches:
            if holds_ids(batch.arrays, forward):
                batch.forwards.append((parts, forward))
                batch.arguments.append((args, kwargs))
                batch.is_inside.append(False)
                batch.step = self._paced.n_steps
                return

    def _note_outputs(self, _module: Any, _args: Any, output: Any) -> None:
        import torch

        computed = [each for each in self._batches if each.forwards]
        if not self._is_watching or not torch.is_grad_enabled() or not computed:
            return
        batch, number = computed[-1], len(computed[-1].forwards) - 1
        part = batch.forwards[number][0][0]
        loss = output.get("loss") if isinstance(output, dict) else None
        tensors = outputs_with_graph(output)

        def note_loss(_gradient: Any) -> None:
            batch.is_inside[number] = True

        if loss is not None and loss.requires_grad:
            loss.register_hook(note_loss)
        elif 0 < len(tensors) < MOST_OUTPUTS and all(
            part.width not in each.shape[1:] for each in tensors
        ):
            batch.is_inside[number] = True  # of a classifier, say
        of_tokens = [t for t in tensors if t.ndim == 3 and t.shape[:2] == (part.rows, part.width)]
        if of_tokens:
            logits = of_tokens[0].detach()

            def note_weights(gradient: Any) -> None:
                batch.weights.append(token_weights(logits, gradient, part.real_mask))

            of_tokens[0].register_hook(note_weights)

    def _note_step(self) -> None:
        if self._is_watching and self._paced.n_steps == WHOLE_STEPS - 1:
            self._is_watching = False
            while len(self._hooks) > 1:  # that of steps stays
                self._hooks.pop(0).remove()
            try:
                applied = self._settle()
            except Exception as error:  # the training must go on
                self._say(f"nothing is applied: {error!r}")
                applied = False
            if not applied:
                self._end()
                return
        self._steps.note_step()
        if why_off := self._paced.note_step():
            self._say(f"nothing more is cut: {why_off}")

    def _end(self) -> None:
        # What is patched stays: iterators hand out what they have collated until now.
        self.loader = None
        while self._hooks:
            self._hooks.pop().remove()

    def _settle(self) -> bool:
        """Set what is applied, where the training stays the same; return whether something is."""
        learner = Learner(self._model.pad_token_id)
        batches = [each for each in self._batches if each.forwards]
        handing = Handing()
        for each in batches:
            handing.learn(each.forwards, each.arrays)
        why_not = why_left_alone(self._module, bool(self._multiple))
        on_device = any(each.device.type != "cpu" for each in self._module.parameters())
        if self._draws and not on_device and drops_now():
            why_not = SHARED_NUMBERS
        if not why_not and batches and not handing.settle():
            why_not = "how its batches come out of those of its loader was not seen"
        for each in () if why_not else batches:
            learner.note(each.data, handing.read_whole(each.arrays), each, each.numbers)
        why_not = why_not or learner.why_not
        cut = self._settle_cut(learner, handing, on_device, why_not or why_unseen(batches))
        multiple = learner.multiple(self._multiple, on_device)
        why_not = why_not or why_not_regrouped(self._module)
        if on_device and cut is None:  # workers have their own copy of the collator
            why_not = why_not or "its collator pads to any width: batchstat run --apply rounds up"
        said = self._steps.settle(learner, cut, why_not, multiple, batches, self._module)
        if said:
            self._say(said)
        return cut is not None or bool(said)

    def _settle_cut(
        self, learner: Learner, handing: Handing, on_device: bool, why_not: str
    ) -> Cut | None:
        """Set the cut and return it; None, with why, where there is none."""
        cut = None
        try:
            cut = None if why_not else learner.cut(self._multiple, on_device)
        except UnknownError as error:
            why_not = str(error)
        # All ranks compute what is compared, or none: they may meet in the forward.
        if not all_agree(cut is not None):
            self._say(f"nothing is cut: {why_not or 'another rank has nothing to cut'}")
            return None
        assert cut is not None
        apart, precision = self._outputs_apart(learner, cut, handing)
        if not all_agree(apart <= LEAST[precision]):
            self._say(f"nothing is cut: padding changes its outputs, by {apart:.2g}")
            return None
        self._paced.shared.set(cut)
        self._say(f"padding is cut from now on: outputs of 2 batches are equal to {apart:.0e}")
        return cut

    def _outputs_apart(self, learner: Learner, cut: Cut, handing: Handing) -> tuple[float, str]:
        precision, apart = Precision(self._module), 0.0
        for candidate in (learner.narrowest, learner.widest):
            assert candidate is not None
            batch: WatchedBatch = candidate.extra

            def given_of(data: Any) -> Any:
                return sign_of(handing.read_whole(WholeNumbers(data).converted(as_array)))

            checked = checked_of(batch.data, cut, given_of)
            for args, kwargs in batch.arguments:
                apart = max(apart, outputs_apart(self._module, args, kwargs, checked) or 0.0)
        precision.remove()
        return apart, precision.kind

    def _say(self, text: str) -> None:
        sys.stderr.write(f"batchstat: {text}\n")
