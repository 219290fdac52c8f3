"""The arguments of a forward by name, and the token ids among them as arrays of the processor."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from .read_batches import ReadBatch, is_whole

MOST_DEPTH = 3  # levels of mappings and sequences, one in another, that are looked into
_DIGEST_BYTES = 8
# Classes whose forward hands all arguments to a model, and the name of that model in them.
_INNER = dict.fromkeys(
    ("DataParallel", "DeepSpeedEngine", "DistributedDataParallel", "FullyShardedDataParallel"),
    "module",
)
_INNER["OptimizedModule"] = "_orig_mod"  # of torch.compile
_parameter_names: dict[type, list[str]] = {}
"""Names of the arguments of the forward of each class of model, once they were looked for."""


def is_stream(data: Any) -> bool:
    """Return whether a data set has a sequence of its own: those of torch and datasets."""
    return any(each.__name__ == "IterableDataset" for each in type(data).__mro__)


def length_of(data: Any) -> Any:
    """Return the length of a loader or a data set; None where it has none, as a stream."""
    try:
        return len(data)
    except Exception:  # a loader asks the script's own data set
        return None


def arguments_by_name(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a forward by name. Those without a name get "?0", "?1" and so on."""
    if not args:
        return kwargs
    inner = unwrapped(module)
    if type(inner) not in _parameter_names:
        try:
            _parameter_names[type(inner)] = list(inspect.signature(inner.forward).parameters)
        except (TypeError, ValueError):  # a forward without a signature, such as a compiled one
            _parameter_names[type(inner)] = []
    names = _parameter_names[type(inner)]
    # A forward with *args, or without a signature, has more arguments than names.
    arguments = {names[i] if i < len(names) else "?%d" % i: value for i, value in enumerate(args)}
    arguments.update(kwargs)
    return arguments


def forwards_around(module_class: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield each module whose `forward` is running, the innermost first, and its arguments."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "forward" and code.co_argcount:
            n_named = code.co_argcount + code.co_kwonlyargcount
            owner, *names = code.co_varnames[:n_named]
            values = frame.f_locals
            if isinstance(values.get(owner), module_class):
                arguments = {name: values[name] for name in names}
                if code.co_flags & inspect.CO_VARKEYWORDS:
                    has_args = bool(code.co_flags & inspect.CO_VARARGS)
                    arguments.update(values[code.co_varnames[n_named + has_args]])
                yield values[owner], arguments
        frame = frame.f_back


def unwrapped(module: Any) -> Any:
    """Return the model inside wrappers such as DistributedDataParallel, or this without any."""
    return wrappers(module)[-1]


def wrappers(module: Any) -> list[Any]:
    """Return a module, the wrapper or model inside it, and so on; last, the model."""
    modules = [module]
    for _ in range(MOST_DEPTH):  # a compiled model may be wrapped in DistributedDataParallel too
        # By its class, since a model of the user's own may have a layer called `module`; and not by
        # getattr, which an OptimizedModule answers from the model inside.
        name = _INNER.get(type(modules[-1]).__name__)
        inner = modules[-1].__dict__.get("_modules", {}).get(name)
        if inner is None:
            break
        modules.append(inner)
    return modules


def ranks_meet(module: Any) -> bool:
    """Return whether ranks wait for each other in this forward of a model, or in its backward: with
    DistributedDataParallel outside of `no_sync`, with sharded weights or gradients always.
    """
    for each in wrappers(module):
        kinds = {kind.__name__ for kind in type(each).__mro__}
        if "FSDPModule" in kinds:  # of FSDP2, which gives a model a class of its own
            return True
        if "FullyShardedDataParallel" in kinds:  # with NO_SHARD it has no_sync as well
            is_sharded = not str(getattr(each, "sharding_strategy", "")).endswith("NO_SHARD")
            return is_sharded or bool(getattr(each, "_sync_gradients", True))
        if "DeepSpeedEngine" in kinds:
            ends_step: bool = each.is_gradient_accumulation_boundary()
            return ends_step or each.zero_optimization_stage() > 1
        if "DistributedDataParallel" in kinds:
            return bool(each.require_backward_grad_sync)
    return False


def enters_graph(arguments: Mapping[str, Any]) -> bool:
    """Return whether a module with these arguments is where a graph begins, as a model is. A loss
    or a head takes what a model computed: a tensor that requires a gradient.
    """
    # A model, even if another argument has a gradient, such as the features of a picture.
    if "input_ids" in arguments or "inputs_embeds" in arguments:
        return True
    for value in arguments.values():
        items = value if isinstance(value, (list, tuple)) else (value,)
        if any(getattr(item, "requires_grad", False) for item in items):
            return False
    return True


class WholeNumbers:
    """The tensors of whole numbers among arguments or in a batch: token ids, masks and labels."""

    __slots__ = ("are_here", "hold_ids", "nested", "tensors")

    def __init__(self, value: Any) -> None:
        """Look for them in an argument, a mapping of arguments, or a batch."""
        self.tensors: list[Any] = []
        self.are_here = True  # whether all are in the memory of the processor
        self.hold_ids = False  # whether any has rows of numbers, as token ids have
        # The value with these tensors alone, in dictionaries and lists, as of `as_rows`; or None.
        self.nested = self._collected(value, depth=0)

    def _collected(self, value: Any, depth: int, name: str = "") -> Any:
        """Add the tensors in a value called `name` to `tensors`, and return it as in `nested`."""
        if hasattr(value, "is_floating_point"):  # a tensor
            rows = as_rows(value, name)
            if rows is not None:
                self.tensors.append(value)
                self.are_here &= value.device.type == "cpu"
                self.hold_ids |= rows.ndim == 2 and is_whole(rows) and rows.numel() > 0
            return rows
        if depth > MOST_DEPTH:
            return None
        values = values_by_name(value)
        if values is not None:
            own = {key: self._collected(item, depth + 1, str(key)) for key, item in values.items()}
            return {key: item for key, item in own.items() if item is not None} or None
        # None keeps the place of an item without whole numbers.
        is_list = isinstance(value, (list, tuple))
        items = [self._collected(item, depth + 1) for item in value] if is_list else []
        return items if any(item is not None for item in items) else None

    def converted(self, convert: Any) -> Any:
        """Return `nested` with `convert(tensor)` for each tensor."""
        return converted(self.nested, convert)

    @property
    def size(self) -> int:
        """The tokens that a forward computes: the numbers in its largest argument."""
        return max((int(each.numel()) for each in self.tensors if is_whole(each)), default=0)


def as_rows(array: Any, name: str) -> Any:
    """Return an array called `name`, of whole numbers or a mask, as rows; None for any other.
    Rows that were tokenized one by one, of (batch, 1, width), become (batch, width).
    """
    kind = str(array.dtype)
    is_float = "float" in kind
    if "complex" in kind or (is_float and ("mask" not in name or 0 in array.shape)):
        return None
    # Pictures, hidden states and masks of pairs have more dimensions, or are floats.
    if array.ndim > 2:
        if any(size != 1 for size in array.shape[1:-1]):
            return None
        array = array.reshape(array.shape[0], array.shape[-1])
    if not is_float:
        return array
    # A mask that is added to scores has 0 for what is real, and less for padding; a padding mask 0
    # for what is real, too; others 1.
    return array != 0 if "padding" in name else array == array.max()


def values_by_name(value: Any) -> Mapping[Any, Any] | None:
    """Return the values of a mapping, a namedtuple or a data class by their names; else None."""
    if isinstance(value, Mapping):
        return value
    if hasattr(value, "_asdict"):  # a namedtuple
        fields: Mapping[Any, Any] = value._asdict()
        return fields
    # Data classes only: every other object of a script has a __dict__, too.
    return vars(value) if hasattr(value, "__dataclass_fields__") else None


def converted(nested: Any, convert: Any) -> Any:
    """Return nested dictionaries and lists with `convert(tensor)` for each tensor in them."""
    if isinstance(nested, dict):
        return {key: converted(item, convert) for key, item in nested.items()}
    if isinstance(nested, list):
        return [converted(item, convert) for item in nested]
    return None if nested is None else convert(nested)


def as_array(tensor: Any) -> Any:
    """Return a tensor as an array of NumPy that shares its memory, several times faster to read; as
    it is where it cannot be converted, or the command has not imported NumPy.
    """
    if "numpy" not in sys.modules or not hasattr(tensor, "numpy"):
        return tensor
    try:
        return tensor.numpy()  # whole numbers have no gradient
    except (TypeError, RuntimeError):  # a NumPy that this torch was not built for
        return tensor


class Digests:
    """Digests of samples, which tell samples apart where their numbers are not known. The key of
    the run is never written, so that no recording tells which texts were trained on.
    """

    def __init__(self, key: bytes) -> None:
        """Take the key of the run."""
        self._keyed = hashlib.blake2b(key=key, digest_size=_DIGEST_BYTES)

    def of(self, batch: ReadBatch) -> str:
        """Return the digests of the real tokens of each sample of a batch, joined in hexadecimal
        digits; empty where it is not known which tokens are real.
        """
        ids, real_mask = batch.ids, batch.real_mask
        # With a decoder `real` counts its tokens too.
        if ids is None or batch.real is None or batch.decoder is not None:
            return ""
        if hasattr(ids, "astype"):  # an array: the same bytes in all environments
            ids = ids.astype("<i4")
        digests = []
        for row_number, lengths in enumerate(batch.real):
            # Its samples one after the other: without a mask, padding is at the end only.
            row = ids[row_number] if real_mask is None else ids[row_number][real_mask[row_number]]
            for stop, length in zip(accumulate(lengths), lengths):
                digest = self._keyed.copy()  # a third faster than to begin with the key
                digest.update(_bytes_of(row[stop - length : stop]))
                digests.append(digest.digest())
        return b"".join(digests).hex()


def split_digests(joined: str) -> list[str]:
    """Return each of the digests that `Digests.of` joined."""
    size = 2 * _DIGEST_BYTES  # hexadecimal digits
    return [joined[start : start + size] for start in range(0, len(joined), size)]


def fingerprint(ids: Any) -> int:
    """Return a number that tells batches of token ids apart in this process, however transposed."""
    rows, width = ids.shape
    if rows == width:  # the shape does not tell which of the two these are
        return hash(min(_bytes_of(ids), _bytes_of(ids.T)))
    return hash((rows * width, _bytes_of(ids.T if rows > width else ids)))


def sign_of(parts: Sequence[ReadBatch]) -> tuple[list[int], Any]:
    """Return the widths of a batch, and what tells it from others in this process."""
    signs = tuple(None if part.ids is None else fingerprint(part.ids) for part in parts)
    return [width for part in parts for width in part.widths], signs


def _bytes_of(ids: Any) -> bytes:
    # A tensor of torch has no bytes where the environment has no NumPy.
    return ids.tobytes() if hasattr(ids, "tobytes") else repr(ids.tolist()).encode()
