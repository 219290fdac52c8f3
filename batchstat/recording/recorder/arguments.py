"""The arguments of a forward by name, and the token ids among them as arrays of the processor."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Mapping
from typing import Any

from .read_batches import ReadBatch

DEEPEST = 3
"""Mappings in sequences in mappings that are looked into."""

_DIGEST_BYTES = 8

_WRAPPERS = {
    "DataParallel",
    "DeepSpeedEngine",
    "DistributedDataParallel",
    "FullyShardedDataParallel",
}

_names: dict[type, list[str]] = {}


def by_name(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a forward by name; those without one, by their place."""
    if not args:
        return kwargs
    inner = unwrapped(module)
    kind = type(inner)
    names = _names.get(kind)
    if names is None:
        try:
            names = list(inspect.signature(inner.forward).parameters)
        except (TypeError, ValueError):
            names = []
        _names[kind] = names
    arguments = {names[i] if i < len(names) else "?%d" % i: value for i, value in enumerate(args)}
    arguments.update(kwargs)
    return arguments


def unwrapped(module: Any) -> Any:
    """Return what a wrapper such as DistributedDataParallel or a compiled module takes arguments
    for: whatever they are.
    """
    for _ in range(DEEPEST):
        name = "_orig_mod" if type(module).__name__ == "OptimizedModule" else "module"
        # Not getattr, which OptimizedModule of torch.compile answers from the module inside.
        inner = module.__dict__.get("_modules", {}).get(name)
        if inner is None or (name == "module" and type(module).__name__ not in _WRAPPERS):
            return module
        module = inner
    return module


def enters_graph(arguments: Mapping[str, Any]) -> bool:
    """Return whether no argument is a float that has a gradient, as those of a loss or a head do;
    of a model that says that it takes tokens, some may, such as features of a picture.
    """
    if "input_ids" in arguments or "inputs_embeds" in arguments:
        return True
    for value in arguments.values():
        nested = value if isinstance(value, (list, tuple)) else (value,)
        for each in nested:
            if getattr(each, "requires_grad", False):
                return False
    return True


class WholeNumbers:
    """The tensors of whole numbers among arguments, of at most two dimensions.

    Attributes:
        nested: those, in the same mappings and sequences; None without any.
        tensors: those, one after the other.
        are_here: whether all can be read without waiting for a device.
    """

    __slots__ = ("are_here", "nested", "tensors")

    def __init__(self, value: Any) -> None:
        """Look for them in an argument, a mapping of some, or a batch."""
        self.tensors: list[Any] = []
        self.are_here = True
        self.nested = self._in(value, 0)

    def _in(self, value: Any, depth: int) -> Any:
        if hasattr(value, "is_floating_point"):
            if value.dim() > 2 or value.is_floating_point() or value.is_complex():
                # Pictures, hidden states and masks of pairs have more dimensions, or are floats.
                return None
            self.tensors.append(value)
            if not value.is_cpu:
                self.are_here = False
            return value
        if depth > DEEPEST:
            return None
        named = named_values(value)
        if named is not None:
            found = {}
            for key, each in named.items():
                kept = None if each is None else self._in(each, depth + 1)
                if kept is not None:
                    found[key] = kept
            return found or None
        if isinstance(value, (list, tuple)):
            listed = [self._in(each, depth + 1) for each in value]
            return listed if any(each is not None for each in listed) else None
        return None

    def converted(self, convert: Any) -> Any:
        """Return these, converted."""
        return converted(self.nested, convert)

    @property
    def hold_ids(self) -> bool:
        """Whether any are rows of numbers, as token ids are."""
        return any(each.dim() == 2 and each.numel() for each in self.tensors)

    @property
    def size(self) -> int:
        """How many tokens a forward computes, as its largest argument has them."""
        return max((int(each.numel()) for each in self.tensors), default=0)


def named_values(value: Any) -> Mapping[Any, Any] | None:
    """Return the values of a mapping, a namedtuple or a data class by their names; else None."""
    if isinstance(value, Mapping):
        return value
    if hasattr(value, "_asdict"):
        named: Mapping[Any, Any] = value._asdict()
        return named
    # Data classes only: every other object of a script has a __dict__, too.
    return vars(value) if hasattr(value, "__dataclass_fields__") else None


def converted(nested: Any, convert: Any) -> Any:
    """Return what `convert` returns for each tensor in mappings and sequences, in the same ones."""
    if isinstance(nested, dict):
        return {key: converted(each, convert) for key, each in nested.items()}
    if isinstance(nested, list):
        return [converted(each, convert) for each in nested]
    return None if nested is None else convert(nested)


def as_array(tensor: Any) -> Any:
    """Return a tensor of the processor as an array of NumPy, which is several times faster to read;
    as it is where the environment of the command has none, or what is an array already.
    """
    if "numpy" not in sys.modules or not hasattr(tensor, "numpy"):
        return tensor
    try:
        return tensor.numpy()  # whole numbers have no gradient
    except (TypeError, RuntimeError):  # a NumPy that this torch was not built for
        return tensor


class Digests:
    """Digests of samples, made with a key of the run that is never written, so that a file of them
    does not tell which texts were trained on.
    """

    def __init__(self, key: bytes) -> None:
        """Take the key of the run."""
        self._keyed = hashlib.blake2b(key=key, digest_size=_DIGEST_BYTES)

    def of(self, read: ReadBatch) -> str:
        """Return the digests of the real tokens of each sample, one after the other: the same
        wherever the padding is. Empty where it is not known which tokens are real.
        """
        ids, keep = read.ids, read.keep
        # With a decoder `real` counts its tokens too, and does not tell where the ids of a sample
        # end.
        if ids is None or read.real is None or read.decoder is not None:
            return ""
        if hasattr(ids, "astype"):
            ids = ids.astype("<i4")  # as many bytes in all environments
        digests = []
        for place, lengths in enumerate(read.real):
            row = ids[place] if keep is None else ids[place][keep[place]]
            stop = 0
            for length in lengths:
                start, stop = stop, stop + length
                digest = self._keyed.copy()  # a third faster than to begin with the key
                digest.update(_bytes_of(row[start:stop]))
                digests.append(digest.digest())
        return b"".join(digests).hex()


def split_digests(joined: str) -> list[str]:
    """Return each of the digests that stand one after the other."""
    size = 2 * _DIGEST_BYTES
    return [joined[place : place + size] for place in range(0, len(joined), size)]


def fingerprint(ids: Any) -> int:
    """Return a number that tells batches of token ids apart within a process."""
    return hash((tuple(ids.shape), _bytes_of(ids)))


def _bytes_of(ids: Any) -> bytes:
    # A tensor of torch has no bytes where the environment has no NumPy.
    return ids.tobytes() if hasattr(ids, "tobytes") else repr(ids.tolist()).encode()
