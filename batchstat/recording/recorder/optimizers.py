"""The optimizers of a process: whether it has any, and whose gradients they step on."""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from typing import Any


class Optimizers:
    """What is known of the optimizers of a process."""

    def __init__(self) -> None:
        self.is_one_made = self._has_looked = False
        self._stepped: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    @property
    def stepped(self) -> list[Any]:
        """Those that have stepped."""
        return list(self._stepped.values())

    def note_step(self, optimizer: Any) -> None:
        """Note that one has stepped."""
        self.is_one_made = True
        self._stepped[id(optimizer)] = optimizer

    def are_known(self, model: Any) -> bool:
        """Return whether there is one for the gradients of a model, which may be None. One may have
        been made before a block that is recorded: it is looked for once.
        """
        if not self.is_one_made and not self._has_looked and model is not None:
            self._has_looked, kind = True, sys.modules["torch"].optim.Optimizer
            made = [each for each in gc.get_objects() if issubclass(type(each), kind)]
            self.is_one_made = any(holds_gradients(each, model) for each in made)
        return self.is_one_made


def holds_gradients(owner: Any, model: Any) -> bool:
    """Return whether a model has gradients, and all of them are of parameters of `owner`."""
    groups = getattr(owner, "param_groups", None)  # of an optimizer
    own = [owner.parameters()] if groups is None else [group["params"] for group in groups]
    own_ids = set(map(id, itertools.chain.from_iterable(own)))
    parameters = () if model is None else model.parameters()
    with_gradient = [each for each in parameters if each.grad is not None]
    return bool(with_gradient) and all(id(each) in own_ids for each in with_gradient)


def makes_tail() -> bool:
    """Return whether Lightning or accelerate, which counts batches, calls the optimizer that now
    steps: both also step on the last batches of an epoch.
    """
    frame: Any = sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if ".loops.training_epoch_loop" in module:
            return True
        if module == "accelerate.optimizer":
            state = sys.modules["accelerate.state"].GradientState()
            return bool(state.num_steps > 1 and state.sync_with_dataloader)
        frame = frame.f_back
    return False
