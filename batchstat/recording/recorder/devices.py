"""Tensors and times of a device, noted while it goes on, and read a step later.

Nothing here waits for a device: a training that is recorded must not be slowed by it.
"""

from __future__ import annotations

import sys
import time
from typing import Any, NamedTuple

from .arguments import WholeNumbers, as_array, converted


def copied(tensor: Any) -> Any:
    """Return a copy of a tensor of the processor as an array, which what a command does with it
    afterwards cannot change.
    """
    array = as_array(tensor)
    return array.clone() if array is tensor else array.copy()


class Copies:
    """Copies of tensors of a device, on their way to the processor."""

    def __init__(self, numbers: WholeNumbers) -> None:
        """Begin to copy: on CUDA into pinned memory, on a stream of its own."""
        import torch

        self._event: Any = None
        self._stream = _stream_of(torch, numbers)
        if self._stream is None:
            # Devices without streams, such as that of a Mac, are waited for.
            self._copies = numbers.converted(lambda tensor: tensor.detach().to("cpu"))
            return
        # The batch itself may still be on its way to the device.
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
        # Into memory that is not pinned, torch would wait for the copy.
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        copy.copy_(tensor.detach(), non_blocking=True)
        tensor.record_stream(self._stream)  # its memory is not given to others before
        return copy

    @property
    def are_here(self) -> bool:
        """Whether all have arrived."""
        return self._event is None or bool(self._event.query())

    def arrived(self) -> Any:
        """Return the numbers as arrays; waits only where some are under way when a run ends."""
        if not self.are_here:
            self._event.synchronize()
        return converted(self._copies, as_array)


_streams: dict[int, Any] = {}


def _stream_of(torch: Any, numbers: WholeNumbers) -> Any:
    """Return the stream on which tensors of a CUDA device are copied; None for other devices."""
    device = next(each.device for each in numbers.tensors if each.device.type != "cpu")
    if device.type != "cuda":
        return None
    if device.index not in _streams:
        _streams[device.index] = torch.cuda.Stream(device)
    return _streams[device.index]


class Moment(NamedTuple):
    """When the processor handed out work, and where that stands in the work of a CUDA device.

    Attributes:
        at: of `perf_counter`.
        event: of the device; None without one.
    """

    at: float
    event: Any

    @property
    def is_here(self) -> bool:
        """Whether the device has come to it."""
        return self.event is None or bool(self.event.query())


class Clock:
    """Tells when a device computes what the processor hands out, which goes on meanwhile.

    Attributes:
        name: of the device; empty before the first batch.
    """

    def __init__(self) -> None:
        """Begin with the times of the processor."""
        self.name = ""
        self._device: Any = None
        self._first: Moment | None = None

    def see(self, numbers: WholeNumbers) -> None:
        """Take the times of the device of a batch, if it has events."""
        if numbers.are_here:
            self.name = self.name or "cpu"
        elif self.name in ("", "cpu"):
            device = next(each.device for each in numbers.tensors if each.device.type != "cpu")
            self.name = str(device.type)
            if device.type == "cuda":
                self._device = device
                self.name = str(sys.modules["torch"].cuda.get_device_name(device))

    def now(self) -> Moment:
        """Return this moment; its event is recorded, and not waited for."""
        at = time.perf_counter()
        if self._device is None:
            return Moment(at, None)
        cuda = sys.modules["torch"].cuda
        if cuda.is_current_stream_capturing():  # an event would be a part of the graph
            return Moment(at, None)
        event = cuda.Event(enable_timing=True)
        event.record(cuda.current_stream(self._device))
        moment = Moment(at, event)
        # Events have no time of their own, only one since another event.
        if self._first is None:
            self._first = moment
        return moment

    def seconds(self, moment: Moment) -> float:
        """Return when the device came to a moment, as `perf_counter` counts from its first one."""
        if moment.event is None or self._first is None:
            return moment.at
        moment.event.synchronize()  # of one that is here already, but where a run ends
        milliseconds: float = self._first.event.elapsed_time(moment.event)
        return self._first.at + milliseconds / 1000
