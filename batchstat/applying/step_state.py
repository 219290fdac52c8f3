"""What a step of the checks depends on, and what it gives."""

from __future__ import annotations

import contextlib
import gc
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# Narrower batches draw fewer numbers for dropout.
SHARED_NUMBERS = "its loader and dropout share random numbers: give it a generator"
ONE_BATCH = "its steps have one batch each"  # so that there is nothing to regroup
WHOLE_STEPS = 5  # the first ones, which come as they are
# By how much results may differ, as a share of their norm, by the precision of the computation: a
# sum in another sequence does as much.
LEAST = {"float64": 1e-10, "float32": 1e-5, "tf32": 4e-3, "float16": 4e-3, "bfloat16": 3e-2}


class RandomState:
    """The random numbers to come, of torch, NumPy and Python, and the buffers of a model."""

    def __init__(self, model: Any = None) -> None:
        import torch

        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
        self._torch, self._python = torch.get_rng_state(), random.getstate()
        numpy = sys.modules.get("numpy")
        self._numpy = None if numpy is None else numpy.random.get_state()
        buffers = () if model is None else model.buffers()
        self._buffers = [(each, each.detach().clone()) for each in buffers]

    def has_moved(self) -> bool:
        """Return whether random numbers of the processor were drawn since."""
        import torch

        now = torch.get_rng_state(), random.getstate()
        if not torch.equal(self._torch, now[0]) or self._python != now[1]:
            return True
        if self._numpy is None:
            return False
        _, keys, *rest = sys.modules["numpy"].random.get_state()
        return bool((keys != self._numpy[1]).any()) or rest != [*self._numpy[2:]]

    def restore(self) -> None:
        """Put all of it back."""
        import torch

        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
        for buffer, value in self._buffers:
            # A cache of positions may have grown. By `data`: a backward that is to come may ask
            # whether a buffer has changed.
            if buffer.shape == value.shape and not torch.equal(buffer, value):
                buffer.data.copy_(value)


def all_modules() -> list[Any]:
    """Return all modules that there are: a loop may call parts of one model by themselves."""
    import torch

    # By type: to ask a proxy of a script for its class may import what it stands for.
    return [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Module)]


@contextlib.contextmanager
def without_dropout(modules: Iterable[Any]) -> Iterator[None]:
    """Set every probability of dropout in modules to 0 for a while: `eval()` would hide what batch
    norm does, and noise on embeddings.
    """
    found = list(dropouts_of(modules))
    try:
        _set_all((owner, name, 0.0) for owner, name, _ in found)
        yield
    finally:
        _set_all(found)


def dropouts_of(modules: Iterable[Any]) -> Iterator[tuple[Any, str, float]]:
    """Yield the probabilities of dropout in modules that are not 0: (what has it, its name, it)."""
    for module in modules:
        is_dropout = "Drop" in type(module).__name__
        for owner in (module, getattr(module, "config", None)):
            for name, value in list(getattr(owner, "__dict__", {}).items()):
                names_one = "drop" in name.lower() or (is_dropout and name == "p")
                if names_one and type(value) is float and value:
                    yield owner, name, value


def drops_now() -> bool:
    """Return whether a module that trains has dropout: a loop may call several parts of a model."""
    # That of a configuration may be of no module.
    owners = [owner for owner, _, _ in dropouts_of(all_modules())]
    return any(getattr(each, "training", False) for each in owners)


def _set_all(values: Iterable[tuple[Any, str, float]]) -> None:
    for owner, name, value in values:
        with contextlib.suppress(Exception):  # a configuration may refuse values
            setattr(owner, name, value)


class Precision:
    """The least precise numbers that a model is computed in, seen inside its forwards: autocast may
    begin there, as in a model that accelerate has prepared.
    """

    def __init__(self, model: Any) -> None:
        self.kind = "float64"
        own = [m for m in model.modules() if next(m.parameters(recurse=False), None) is not None]
        self._hooks = [each.register_forward_pre_hook(self._look) for each in own]

    def _look(self, module: Any, _args: Any) -> None:
        self.kind = max(self.kind, _kind_of(module), key=lambda kind: LEAST[kind])

    def remove(self) -> None:
        """Look no more."""
        while self._hooks:
            self._hooks.pop().remove()


def _kind_of(module: Any) -> str:
    import torch

    if torch.is_autocast_enabled():  # of CUDA
        kinds = {str(torch.get_autocast_gpu_dtype())}
    elif getattr(torch, "is_autocast_cpu_enabled", bool)():
        kinds = {str(torch.get_autocast_cpu_dtype())}
    else:
        kinds = {str(each.dtype) for each in module.parameters(recurse=False)}
    names = {each.rpartition(".")[2] for each in kinds}
    if torch.cuda.is_initialized() and torch.backends.cuda.matmul.allow_tf32:
        names.add("tf32")
    # Weights of fewer bits are computed in the numbers of what they take.
    return max(names & LEAST.keys(), key=lambda kind: LEAST[kind], default="float64")


def gradients_of(parameters: Sequence[Any]) -> list[Any]:
    """Return copies, on the processor, of the gradients of parameters that have one; of sharded
    ones, what this rank has.
    """
    found = [each.grad for each in parameters if each.grad is not None]
    return [getattr(each, "_local_tensor", each).detach().to("cpu", copy=True) for each in found]


def distance(values: Sequence[Any], others: Sequence[Any]) -> float:
    """Return the norm of the difference of arrays, as a share of the norm of the first ones;
    infinite where shapes differ or a number is none.
    """
    if [each.shape for each in values] != [each.shape for each in others]:
        return float("inf")
    pairs = [(a.double(), b.double()) for a, b in zip(values, others)]
    norm = sum(float((a * a).sum()) for a, _ in pairs) ** 0.5
    apart = sum(float(((a - b) ** 2).sum()) for a, b in pairs) ** 0.5
    if norm != norm or apart != apart:
        return float("inf")
    return apart / norm if norm else (0.0 if not apart else float("inf"))


def all_agree(holds: bool) -> bool:
    """Return whether something holds on all ranks, which all of them ask."""
    return not largest_of_ranks([not holds])[0]


def largest_of_ranks(numbers: Any) -> Any:
    """Return whole numbers, each the largest that any rank has: all of them ask with as many."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return numbers
    import torch

    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    largest = torch.as_tensor(numbers).to(torch.int32).to(device)
    distributed.all_reduce(largest, op=distributed.ReduceOp.MAX)
    largest = largest.cpu()
    return largest.tolist() if isinstance(numbers, list) else largest.numpy()
