"""Peak memory of tensors on a device whose memory torch does not count, such as a CPU."""

from collections.abc import Iterable
from typing import Any
from weakref import finalize

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


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
