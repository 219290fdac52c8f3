"""Peak memory of tensors on a device that keeps no account of it, such as a CPU."""

from collections.abc import Iterable
from typing import Any
from weakref import finalize

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class TensorMemory(TorchDispatchMode):  # type: ignore[misc]
    """Counts the bytes of storages that operations make while it is active.

    Memory that an operation takes and frees by itself is not seen.

    Attributes:
        peak: the most bytes alive at once.
    """

    def __init__(self, alive: Iterable[torch.Tensor]) -> None:
        """Start with the storages of tensors that are alive already."""
        super().__init__()
        self._known: set[int] = set()
        self._bytes = self.peak = 0
        for tensor in alive:
            self._add(tensor)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation, and count what it returns."""
        result = func(*args, **(kwargs or {}))
        for each in tree_iter(result):
            if isinstance(each, torch.Tensor):
                self._add(each)
        return result

    def restart(self) -> int:
        """Return the peak so far, and forget it."""
        peak, self.peak = self.peak, self._bytes
        return peak

    def _add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
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
