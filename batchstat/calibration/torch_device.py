"""Training steps on a torch device: on a CPU, or on what `torch.accelerator` knows."""

import gc
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import finalize

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from batchstat.calibration.measured import Hardware, Shape
from batchstat.calibration.measuring import BatchTooLargeError, Timing, WarmUp
from batchstat.errors import InputError

Batch = Mapping[str, torch.Tensor]


class Steps(ABC):
    """A model's training steps. One that is a single call overrides `forward_backward` alone."""

    vocabulary: int  # token ids are below it
    positions: int | None = None
    """Positions that the model has embeddings for; None where it has none."""

    @abstractmethod
    def forward_backward(self, batch: Batch) -> None:
        """Compute the gradients of a batch."""

    def update(self) -> None:  # noqa: B027
        """Update the weights, and drop the gradients."""

    def tensors(self) -> Iterable[torch.Tensor] | None:
        """Return weights, buffers and optimizer state; None where they are not known."""
        return None

    def gradients(self) -> int | None:
        """Return the bytes of gradients before the update; None where they are not known."""
        return None

    def drop_gradients(self) -> None:  # noqa: B027
        """Drop the gradients that a step left which ran out of memory."""


class TorchDevice:
    """A device that runs the steps of a model."""

    def __init__(self, device: torch.device, steps: Steps) -> None:
        self._device, self._steps = device, steps
        self._random = torch.Generator().manual_seed(0)
        # Known after a step: bytes of weights and optimizer state, and of gradients.
        self.fixed: int | None = None
        self.gradients: int | None = None
        self._ran_out = False  # whether the step before ran out of memory

    @property
    def hardware(self) -> Hardware:
        """The device, its memory, and the versions of torch, transformers and Python."""
        import transformers

        device, memory = self._device, None
        name = platform.processor() or platform.machine()
        if device.type != "cpu":
            module = getattr(torch, device.type)  # such as torch.cuda
            name = f"{platform.processor()} {device.type}"
            # torch.mps, of Apple's GPU, has no such function.
            if hasattr(module, "get_device_name"):
                name = str(module.get_device_name(device))
        if _keeps_account(device):  # (free bytes, all bytes)
            memory = torch.accelerator.get_memory_info(device)[1]
        versions = {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": platform.python_version(),
        }
        return Hardware(device=device.type, name=name, memory=memory, versions=versions)

    def warm_up(self, shape: Shape) -> WarmUp:
        """Run a step on a shape for the first time. Raises BatchTooLargeError or InputError."""
        with self._running(shape), _peaks(self._device, self._steps) as peaks:
            batch = self._batch(shape)
            began = time.perf_counter()
            self._steps.forward_backward(batch)
            self._wait()
            seconds = time.perf_counter() - began
            # Gradients exist only from here to the update.
            peak = peaks.restart()
            self.gradients = self._steps.gradients()
            # For a function, whose step is one call, this does nothing.
            self._steps.update()
            self._wait()
            update_peak = peaks.restart()
        # The update has dropped the gradients: what is left is weights and optimizer state.
        self.fixed = peaks.alive()
        return WarmUp(None if peaks.slow_down else seconds, peak, update_peak)

    def run(self, shape: Shape) -> Timing:
        """Time a step on a shape that ran before. Raises BatchTooLargeError or InputError."""
        with self._running(shape):
            batch = self._batch(shape)
            self._wait()  # until the batch is on the device
            began = time.perf_counter()
            self._steps.forward_backward(batch)
            self._wait()
            between = time.perf_counter()
            self._steps.update()
            self._wait()
            return Timing(between - began, time.perf_counter() - between)

    @contextmanager
    def _running(self, shape: Shape) -> Iterator[None]:
        """Turn errors inside into InputError, or BatchTooLargeError where memory runs out."""
        # The tensors of a step that ran out of memory are freed only here: its traceback held them.
        if self._ran_out:
            self._ran_out = False
            self._steps.drop_gradients()
            gc.collect()
            if self._device.type != "cpu":
                torch.get_device_module(self._device).empty_cache()
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a model may raise anything, as asyncio.CancelledError
            self._ran_out = is_out_of_memory(error)
            if not self._ran_out:
                reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                raise InputError(f"the step fails on {shape}: {reason}") from error
        # Not inside `except`: the step's error would be the context, whose traceback holds tensors.
        if self._ran_out:
            raise BatchTooLargeError

    def _wait(self) -> None:
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)

    def _batch(self, shape: Shape) -> Batch:
        """Return a batch of a shape, with random token ids, on the device."""
        # Packed rows have positions that begin again at each sample, and no mask. Other rows have a
        # mask, and the last of several is half padding: else attention would skip the mask.
        size = (shape.rows, shape.width)
        # A model may treat id 0, the padding of most vocabularies, in another way.
        ids = torch.randint(1, self._steps.vocabulary, size, generator=self._random)
        batch = {"input_ids": ids, "labels": ids.clone()}
        if shape.samples_per_row > 1:
            # Positions of one row, which all rows share.
            positions = torch.cat([torch.arange(length) for length in shape.lengths])
            batch["position_ids"] = positions.expand(size).contiguous()
        else:
            mask = torch.ones_like(ids)
            if shape.rows > 1:  # a single row is never padded
                mask[-1, (shape.width + 1) // 2 :] = 0
            batch["attention_mask"] = mask
            batch["labels"][mask == 0] = -100  # no loss
        return {name: tensor.to(self._device) for name, tensor in batch.items()}


class _Peaks(NamedTuple):
    """Functions that tell the memory in use on a device; they return None where it is not known."""

    restart: Callable[[], int | None]  # returns the bytes at the peak since the last call
    alive: Callable[[], int | None]  # returns the bytes of what is in use now
    slow_down: bool = False


@contextmanager
def _peaks(device: torch.device, steps: Steps) -> Iterator[_Peaks]:
    """Yield functions that tell the peak memory of the operations inside the block."""
    # torch counts the memory of some devices, such as CUDA; elsewhere the tensors are counted.

    def peak_of_accelerator() -> int:
        peak: int = torch.accelerator.max_memory_allocated(device)
        torch.accelerator.reset_peak_memory_stats(device)
        return peak

    def bytes_of_tensors() -> int:
        # One tensor of each storage: tied weights share one.
        storages = {each.untyped_storage()._cdata: each for each in steps.tensors() or ()}
        return sum(each.untyped_storage().nbytes() for each in storages.values())

    if _keeps_account(device):  # such as CUDA
        torch.accelerator.reset_peak_memory_stats(device)
        yield _Peaks(peak_of_accelerator, lambda: torch.accelerator.memory_allocated(device))
    elif (tensors := steps.tensors()) is None:  # of a function, or a compiled model
        yield _Peaks(lambda: None, lambda: None)
    else:
        with TensorMemory(tensors) as memory:
            yield _Peaks(memory.restart, bytes_of_tensors, slow_down=True)


def _keeps_account(device: torch.device) -> bool:
    """Return whether torch knows how much memory of a device is in use."""
    if device.type == "cpu":
        return False
    try:
        torch.accelerator.memory_allocated(device)
    except RuntimeError:  # of devices whose memory it does not count
        return False
    return True


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out, by its type or its text."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    # Of the driver, Triton and libraries of CUDA, whose errors have no type of their own. On a CPU
    # and on Apple's GPU a RuntimeError says that so much memory cannot be allocated.
    parts = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
    return any(part in text for part in parts) or ("memory" in text and "alloc" in text)


def find_device(name: str | None) -> torch.device:
    """Return a device by its name; by default the accelerator, else the CPU. Raises InputError."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if name is None:
        return accelerator or torch.device("cpu")
    kind = name.partition(":")[0]  # "cuda" of "cuda:1"
    if kind != "cpu" and (accelerator is None or accelerator.type != kind):
        known = ["cpu"] if accelerator is None else ["cpu", accelerator.type]
        raise InputError(
            f"device {name!r} is not available: torch {torch.__version__} has "
            f"{' and '.join(known)} on this machine"
        )
    try:
        device = torch.device(name)
        torch.empty(0, device=device)  # fails for a number that no device has, such as cuda:9
    except (RuntimeError, AssertionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"device {name!r} is not available: {reason}") from None
    return device


class TensorMemory(TorchDispatchMode):  # type: ignore[misc]
    """Counts the bytes of all tensors that are alive while it is active: `with TensorMemory(...)`.
    torch calls it for every operation. A storage, which several tensors may share, counts once, and
    until it is freed. Memory that an operation takes and frees by itself is not seen.
    """

    def __init__(self, alive: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self._known: set[int] = set()  # addresses of the storages that are counted
        self._bytes = self.peak = 0
        for tensor in alive:
            self._add(tensor)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for item in tree_iter(result):
            if isinstance(item, torch.Tensor):
                self._add(item)
        return result

    def restart(self) -> int:
        """Return the peak so far, and begin another with what is alive now."""
        peak, self.peak = self.peak, self._bytes  # `_bytes` are alive now
        return peak

    def _add(self, tensor: torch.Tensor) -> None:
        """Count the storage of a tensor until it is freed, unless it is counted already."""
        storage = tensor.untyped_storage()
        # Its address: no other storage has it until this one is freed.
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self._bytes += size
        self.peak = max(self.peak, self._bytes)
        finalize(storage, self._remove, key, size)

    def _remove(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._bytes -= size
