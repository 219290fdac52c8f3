"""Tensors and times of a device such as a GPU, noted while it computes, and read a step later.
Nothing here waits for the device, by which a training would be slower.
"""

from __future__ import annotations

import sys
import time
from typing import Any, NamedTuple

from .arguments import WholeNumbers, as_array, converted


def copied(tensor: Any) -> Any:
    """Return a copy of a tensor of the processor as an array: the command may change the tensor."""
    array = as_array(tensor)
    return array.clone() if array is tensor else array.copy()  # without NumPy it is still a tensor


class Copies:
    """Copies of tensors of a device, on their way to the processor."""

    def __init__(self, numbers: WholeNumbers) -> None:
        """Begin to copy the tensors of whole numbers of a batch; on CUDA beside the training."""
        import torch

        # An event of CUDA that comes when all copies are done; None if they were made at once.
        self._event: Any = None
        # The stream of CUDA that makes the copies; on other devices copies are waited for.
        self._stream = _stream_of(torch, numbers)
        if self._stream is None:
            self._copies = numbers.converted(lambda tensor: tensor.detach().to("cpu"))
            return
        # The batch itself may still be on its way to the device, on the stream of the training:
        # the device, not the processor, makes the copies wait for that.
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._copies = numbers.converted(self._copy)
            self._event = torch.cuda.Event()
            self._event.record(self._stream)

    def _copy(self, tensor: Any) -> Any:
        import torch

        if tensor.device.type == "cpu":
            # Some arguments stay on the processor, such as lengths for torch's packed sequences.
            return tensor.detach().clone()
        # Pinned memory: into any other, torch would wait for the copy.
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        copy.copy_(tensor.detach(), non_blocking=True)
        # The training may free the tensor: torch keeps its memory until this stream has copied it.
        tensor.record_stream(self._stream)
        return copy

    @property
    def are_here(self) -> bool:
        """Whether all have arrived."""
        return self._event is None or bool(self._event.query())

    def arrived(self) -> Any:
        """Return the numbers as arrays."""
        if not self.are_here:  # only when a run ends: before, a batch is not read until it is here
            self._event.synchronize()
        return converted(self._copies, as_array)


_streams: dict[int, Any] = {}  # the stream for copies of each CUDA device, by its number


def _stream_of(torch: Any, numbers: WholeNumbers) -> Any:
    """Return the stream on which tensors of a CUDA device are copied; None for other devices."""
    device = next(tensor.device for tensor in numbers.tensors if tensor.device.type != "cpu")
    if device.type != "cuda":
        return None
    if device.index not in _streams:
        _streams[device.index] = torch.cuda.Stream(device)
    return _streams[device.index]


class Moment(NamedTuple):
    """A moment of the training, which a CUDA device reaches later than the processor."""

    at: float  # seconds of `perf_counter` on the processor
    event: Any  # the mark, an event of CUDA; None without a CUDA device

    @property
    def is_here(self) -> bool:
        """Whether the device has reached it, too."""
        return self.event is None or bool(self.event.query())


class Clock:
    """Tells when a device computes, by events of CUDA; without them, when the processor does."""

    def __init__(self) -> None:
        self.name = ""  # of the device; empty before the first batch
        self._device: Any = None
        self._first: Moment | None = None

    def note_device(self, numbers: WholeNumbers) -> None:
        """Note the device of a batch, unless one is known: on CUDA, times are then the device's."""
        if not numbers.are_here and self.name in ("", "cpu"):  # the first batch on a device
            device = next(each.device for each in numbers.tensors if each.device.type != "cpu")
            self.name = str(device.type)
            if device.type == "cuda":
                self._device = device
                self.name = str(sys.modules["torch"].cuda.get_device_name(device))
        elif not self.name:
            self.name = "cpu"  # until a batch is on a device

    def now(self) -> Moment:
        """Return this moment, with a mark in the work of the device that is not waited for."""
        at, cuda = time.perf_counter(), sys.modules["torch"].cuda
        # While a CUDA graph is captured, an event would be a part of it.
        if self._device is None or cuda.is_current_stream_capturing():
            return Moment(at, event=None)
        event = cuda.Event(enable_timing=True)
        event.record(cuda.current_stream(self._device))
        moment = Moment(at, event)
        # An event tells only the time since another event: all are counted from the first one, as
        # if the processor and the device had reached it together.
        if self._first is None:
            self._first = moment
        return moment

    def seconds(self, moment: Moment) -> float:
        """Return when the device reached a moment, in seconds of `perf_counter`."""
        if moment.event is None or self._first is None:
            return moment.at
        # Waits only at the end of a run: before, no moment is read until the device reached it.
        moment.event.synchronize()
        milliseconds: float = self._first.event.elapsed_time(moment.event)
        return self._first.at + milliseconds / 1000
