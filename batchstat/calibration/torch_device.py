"""Training steps on a torch device: on a CPU, or on what `torch.accelerator` knows."""

import gc
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch

from batchstat.calibration.calibration import Hardware
from batchstat.calibration.measuring import BatchTooLargeError, Timing, WarmUp
from batchstat.calibration.shapes import Shape
from batchstat.calibration.torch_memory import TensorMemory
from batchstat.errors import InputError

Batch = Mapping[str, torch.Tensor]

_FIRST_ID = 1
"""The padding of most vocabularies, 0, may be treated in another way."""


class Steps(ABC):
    """What trains a model; without methods of its own, by a single call that does a whole step."""

    vocabulary: int
    """Token ids are below it."""
    positions: int | None = None
    """Tokens that it has embeddings of positions for; None where it has none."""

    @abstractmethod
    def forward_backward(self, batch: Batch) -> None:
        """Compute the gradients of a batch."""

    def update(self) -> None:  # noqa: B027
        """Update the weights, and drop the gradients."""

    def tensors(self) -> Iterable[torch.Tensor] | None:
        """Return weights, buffers and optimizer state; None where they are not known."""
        return None

    def gradients(self) -> int | None:
        """Return the bytes of gradients between a backward pass and the update; None where they are
        not known.
        """
        return None

    def drop_gradients(self) -> None:  # noqa: B027
        """Drop what a step left that failed halfway."""


class TorchDevice:
    """A device that runs the steps of a model."""

    def __init__(self, device: torch.device, steps: Steps) -> None:
        """Take the device, and what trains the model that is on it."""
        self._device, self._steps = device, steps
        self._random = torch.Generator().manual_seed(0)
        self.fixed: int | None = None
        self.gradients: int | None = None
        self._ran_out = False

    @property
    def hardware(self) -> Hardware:
        """What it is: its name, its memory and the versions that it runs."""
        import transformers

        device, memory = self._device, None
        name = platform.processor() or platform.machine()
        if device.type != "cpu":
            module = getattr(torch, device.type)
            name = f"{platform.processor()} {device.type}"
            if hasattr(module, "get_device_name"):  # torch.mps has none
                name = str(module.get_device_name(device))
        if _keeps_account(device):
            memory = torch.accelerator.get_memory_info(device)[1]
        versions = {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": platform.python_version(),
        }
        return Hardware(device=device.type, name=name, memory=memory, versions=versions)

    def warm_up(self, shape: Shape) -> WarmUp:
        """Run a step for the first time. Raises BatchTooLargeError."""
        with self._running(shape), _peaks(self._device, self._steps) as peaks:
            batch = self._batch(shape)
            began = time.perf_counter()
            self._steps.forward_backward(batch)
            self._wait()
            seconds = time.perf_counter() - began
            peak = peaks.restart()
            self.gradients = self._steps.gradients()
            self._steps.update()
            self._wait()
            update_peak = peaks.restart()
        self.fixed = peaks.alive()
        return WarmUp(seconds, peak, update_peak)

    def run(self, shape: Shape) -> Timing:
        """Run a step that ran before. Raises BatchTooLargeError."""
        with self._running(shape):
            batch = self._batch(shape)
            self._wait()
            began = time.perf_counter()
            self._steps.forward_backward(batch)
            self._wait()
            between = time.perf_counter()
            self._steps.update()
            self._wait()
            return Timing(between - began, time.perf_counter() - between)

    @contextmanager
    def _running(self, shape: Shape) -> Iterator[None]:
        """Raise BatchTooLargeError where a step runs out of memory; InputError where it fails
        otherwise.
        """
        # What a step held that ran out of memory is freed only before the next one: until its error
        # is handled, the traceback holds its tensors.
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
        if self._ran_out:
            # Not inside of `except`: chained to it, the error would hold the tensors of the step.
            raise BatchTooLargeError

    def _wait(self) -> None:
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)

    def _batch(self, shape: Shape) -> Batch:
        """Return random ids; the last row of several is padded, as in training, so that attention
        has the mask that it has there.
        """
        size = (shape.rows, shape.width)
        ids = torch.randint(_FIRST_ID, self._steps.vocabulary, size, generator=self._random)
        batch = {"input_ids": ids, "labels": ids.clone()}
        if shape.samples_per_row > 1:
            places = torch.cat([torch.arange(length) for length in shape.lengths])
            batch["position_ids"] = places.expand(size).contiguous()
        else:
            mask = torch.ones_like(ids)
            if shape.rows > 1:
                mask[-1, (shape.width + 1) // 2 :] = 0
            batch["attention_mask"] = mask
            batch["labels"][mask == 0] = -100
        return {name: tensor.to(self._device) for name, tensor in batch.items()}


class _Peaks(NamedTuple):
    """What knows the memory of a device.

    Attributes:
        restart: returns the bytes at the peak since the last call.
        alive: returns the bytes in use.
    """

    restart: Callable[[], int | None]
    alive: Callable[[], int | None]


@contextmanager
def _peaks(device: torch.device, steps: Steps) -> Iterator[_Peaks]:
    """Yield what knows the peak memory of the operations inside."""

    def peak_of_accelerator() -> int:
        peak: int = torch.accelerator.max_memory_allocated(device)
        torch.accelerator.reset_peak_memory_stats(device)
        return peak

    def bytes_of_tensors() -> int:
        # Tied weights share one.
        storages = {each.untyped_storage()._cdata: each for each in steps.tensors() or ()}
        return sum(each.untyped_storage().nbytes() for each in storages.values())

    if _keeps_account(device):
        torch.accelerator.reset_peak_memory_stats(device)
        yield _Peaks(peak_of_accelerator, lambda: torch.accelerator.memory_allocated(device))
    elif (tensors := steps.tensors()) is None:
        yield _Peaks(lambda: None, lambda: None)
    else:
        with TensorMemory(tensors) as memory:
            yield _Peaks(memory.restart, bytes_of_tensors)


def _keeps_account(device: torch.device) -> bool:
    """Whether torch knows how much memory of a device is in use."""
    if device.type == "cpu":
        return False
    try:
        torch.accelerator.memory_allocated(device)
    except RuntimeError:
        return False
    return True


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says so; a CPU and Apple's GPU have none of their own."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return any(each in text for each in _OUT_OF_MEMORY) or ("memory" in text and "alloc" in text)


_OUT_OF_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
"""What the driver, Triton and libraries say, whose errors are of no type of their own."""


def find_device(name: str | None) -> torch.device:
    """Return a device by its name; by default the accelerator of this machine, else its CPU.

    Raises:
        InputError: torch has no such device here.
    """
    here = torch.accelerator.current_accelerator(check_available=True)
    if name is None:
        return here or torch.device("cpu")
    own = name.partition(":")[0]
    if own != "cpu" and (here is None or here.type != own):
        known = ["cpu"] if here is None else ["cpu", here.type]
        raise InputError(
            f"device {name!r} is not available: torch {torch.__version__} has "
            f"{' and '.join(known)} on this machine"
        )
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"device {name!r} is not available: {reason}") from None
    return device
