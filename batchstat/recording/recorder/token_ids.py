"""Which of the arrays that a forward is given, or a loader yields, are token ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .arguments import MOST_DEPTH, values_by_name
from .read_batches import is_whole, shape_of

# Parts of the names of arrays that are no token ids; that are if they reach an embedding; that also
# are where nothing else can be, such as `in_idx`; and that are likely, as `idx` of nanoGPT.
_NEVER_IDS = ("position", "type_ids", "segment", "tags", "lang")
_LABELS = ("label", "target")
_SELDOM_IDS = ("mask", "len", "offset", "_index", "_idx")
_IDS = ("ids", "tok", "input", "idx", "text", "word", "src", "source")
_DECODERS = ("tgt", "trg", "target", "dec")  # how names of token ids of a decoder begin
_MOST_TRIES = 8  # forwards of a model of recurrent or attention layers that are looked into


class IdsSet(NamedTuple):
    """One set of token ids."""

    ids: Any
    values: Mapping[Any, Any]  # what belongs to it, by name: its mask, its labels
    is_decoder: bool = False  # whether it is computed by the decoder, beside the set before it
    doubt: str = ""  # why it may not be token ids; empty where that is known


def sets_of_ids(batch: Any, inside: Inside, depth: int = 0) -> list[IdsSet]:
    """Return the sets of token ids in a batch; `inside` is what was seen in the model, if any."""
    if is_ids(batch):  # token ids alone, without a mask, labels or a name
        return [IdsSet(batch, {})]
    values = _values_by_key(batch)
    if depth > MOST_DEPTH:
        return []
    names, doubt = _names_of_ids(values, inside)
    if names:
        sets = [IdsSet(values[name], _own_values(values, name, names)) for name in names]
        if doubt:
            return [sets[0]._replace(doubt=doubt)]
        has_decoder = _are_of_decoder(names) or (len(names) == 2 and inside.has_decoder)
        sets[-1] = sets[-1]._replace(is_decoder=has_decoder)
        return sets
    # No token ids at this level: those nested in the batch, as in the net_input of fairseq.
    inner = [each for each in values.values() if isinstance(each, (Mapping, list, tuple))]
    return [ids_set for each in inner for ids_set in sets_of_ids(each, inside, depth + 1)]


def _names_of_ids(values: Mapping[Any, Any], inside: Inside) -> tuple[list[Any], str]:
    """Return the names of token ids, those of a decoder last; and why they may be none, or ""."""
    names = [name for name, value in values.items() if is_ids(value)]
    # A plain input_ids is the only set. With labels, decoder_input_ids are these moved by one.
    if "input_ids" in names:
        has_both = "decoder_input_ids" in names and "labels" not in values
        return ["input_ids", "decoder_input_ids"][: 1 + has_both], ""
    # Without it each is one, as chosen_input_ids and rejected_input_ids of a DPO loader are.
    named = [name for name in names if str(name).endswith("input_ids") and not _is_decoder(name)]
    if named:
        return named, ""
    names = [name for name in names if not _has_part(name, _NEVER_IDS)]
    seen = [name for name in names if name in inside.reached]
    names = seen or [name for name in names if not _has_part(name, _LABELS)]
    likely = [name for name in names if not _has_part(name, _SELDOM_IDS)]
    if len(names) > 1 or not (seen or likely):
        # Arrays of 0 and 1 alone are masks, and token ids are not below 0.
        names = [n for n in names if values[n].min() >= 0 and values[n].max() > 1] or likely
        names = [name for name in names if not _has_part(name, _SELDOM_IDS)] or names
    if not seen:
        names = [name for name in names if name in likely or not inside.has_looked]
        # By their numbers, labels of what comes first.
        first, names = names[:1], names[1:]
        names = first + [n for n in names if not _are_labels(values[n], values[first[0]])]
    names.sort(key=_is_decoder)
    if len(names) < 2 or _are_of_decoder(names):
        return names, ""
    if seen:
        # Of other shapes, or in one embedding, they are several texts; else maybe a feature.
        n_embeddings = len({inside.reached[name] for name in names})
        if n_embeddings < len(names) or len({shape_of(values[name]) for name in names}) > 1:
            return names, ""
    else:
        likely = [name for name in names if name == "x" or _has_part(name, _IDS)]
        if len(likely) == 1:
            return likely, ""
    listed = " and ".join("`%s`" % name for name in names)
    return names, "%s may be token ids, and nothing tells which: name these input_ids" % listed


def _has_part(name: Any, parts: tuple[str, ...]) -> bool:
    return any(part in str(name) for part in parts)


def _is_decoder(name: Any) -> bool:
    return str(name).startswith(_DECODERS)


def _are_of_decoder(names: list[Any]) -> bool:
    return [*map(_is_decoder, names)] == [False, True]


def _are_labels(array: Any, ids: Any) -> bool:
    if shape_of(array) != shape_of(ids):
        return False
    pairs = [(array, ids), (array[:, :-1], ids[:, 1:]), (array[:-1], ids[1:])]
    return any(0 not in one.shape and bool((one == other).all()) for one, other in pairs)


def _own_values(values: Mapping[Any, Any], name: Any, names: list[Any]) -> dict[Any, Any]:
    """Return what belongs to one of several sets of token ids, as `chosen_labels` does to
    `chosen_input_ids` and `tgt_mask` to `tgt`, without that part of its name.
    """
    prefix, *others = [_prefix_of(each, names) for each in (name, *names)]
    prefixes = tuple(filter(None, others))
    own: dict[Any, Any] = {}
    for key, value in values.items():
        if prefix and str(key).startswith(prefix):
            own[str(key)[len(prefix) :]] = value
        # What no name tells is that of a plain input_ids, or of each.
        elif not str(key).startswith(prefixes) and (not prefix or all(others)):
            own.setdefault(key, value)
    return own


def _prefix_of(name: Any, names: list[Any]) -> str:
    if str(name).endswith("input_ids"):
        return str(name)[: -len("input_ids")]
    return str(name).split("_")[0] + "_" if len(names) > 1 else ""


def _values_by_key(batch: Any) -> Mapping[Any, Any]:
    """Return the values of a batch, if it has any, by their names or places in a sequence."""
    by_name = values_by_name(batch)
    if by_name is not None:
        return by_name
    if isinstance(batch, (list, tuple)):
        return dict(enumerate(batch))
    # An object of the user's own, such as a Batch with attributes; an array has a shape.
    return vars(batch) if hasattr(batch, "__dict__") and not hasattr(batch, "shape") else {}


def is_ids(value: Any) -> bool:
    """Return whether a value may be token ids: rows of whole numbers."""
    shape = shape_of(value)
    return len(shape) == 2 and 0 not in shape and is_whole(value)


class Inside:
    """What the modules inside a model are given in its first forwards."""

    def __init__(self, modules: list[Any]) -> None:
        """Take the modules of a model."""
        self.reached: dict[Any, int] = {}  # argument that reaches an embedding -> which embedding
        self.has_looked = False  # whether an embedding was seen that takes token ids
        # Whether samples are the columns of the token ids; None where no module shows it.
        self.columns: bool | None = None
        # Whether a module takes (length, batch), such as nn.LSTM by default.
        self.takes_columns = any(getattr(each, "batch_first", None) is False for each in modules)
        self.is_doubtful = False  # whether modules differ in whether samples are columns
        kinds = {type(each).__name__ for each in modules}
        self.has_decoder = "Transformer" in kinds or any("Decoder" in kind for kind in kinds)
        # Compiled code is not looked into: it would be compiled again afterwards.
        self._is_compiled = any(
            type(each).__name__ == "OptimizedModule" or getattr(each, "_compiled_call_impl", None)
            for each in modules
        )
        self._seen: set[tuple[Any, ...]] = set()
        self._tries = 0
        self._arrays: list[tuple[Any, Any]] = []

    def begin(self, nested: Any) -> bool:
        """Return whether a forward with these tensors is to be looked into, for what names do not
        tell: which are token ids, and whether samples are columns.
        """
        arrays = list(_ids_by_name(nested))
        names = tuple(name for name, _ in arrays)
        is_new = names not in self._seen and "input_ids" not in names
        is_open = self.takes_columns and self.columns is None and self._tries < _MOST_TRIES
        is_looked_into = not self._is_compiled and (is_new or is_open)
        self._seen.add(names)
        self._tries += 1
        self._arrays = arrays if is_looked_into else []
        return is_looked_into

    def note(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Note what a module inside the model is given. It waits for no device."""
        value: Any = args[0] if args else next(iter(kwargs.values()), None)
        sizes = [tuple(array.shape) for _, array in self._arrays]
        if hasattr(value, "batch_sizes"):  # a PackedSequence: how many samples have each token
            n_samples = int(value.batch_sizes[0])  # always in the memory of the processor
            for rows, width in sizes:
                if rows != width and n_samples in (rows, width):
                    self._note_columns(n_samples == width)
        elif not hasattr(value, "is_floating_point"):
            return
        elif "Embedding" in type(module).__name__ and not value.is_floating_point():
            self.has_looked = True
            for name in self._names_of(value):
                self.reached[name] = id(module)
        elif isinstance(getattr(module, "batch_first", None), bool) and value.dim() == 3:
            first, second = tuple(value.shape[:2])
            if (first, second) in sizes or (second, first) in sizes:
                is_same = (first, second) in sizes
                if first == second:  # a square that was turned has the strides of what it was
                    is_same = value.stride(0) >= value.stride(1)
                self._note_columns(is_same != module.batch_first)

    def _note_columns(self, columns: bool) -> None:
        self.is_doubtful |= self.columns not in (None, columns)
        self.columns = columns

    def _names_of(self, value: Any) -> list[Any]:
        """Return the name of the argument that a tensor is made of, or none."""
        facts = value.data_ptr(), value.shape, value.stride()
        for name, array in self._arrays:
            if facts == (array.data_ptr(), array.shape, array.stride()):
                return [name]
        # A part of one, such as a step of a decoder. Inputs and targets may be of one storage.
        names = [name for name, array in self._arrays if _storage(array) == _storage(value)]
        # A copy; one on a device would have to be waited for.
        if not names and value.device.type == "cpu":
            names = [name for name, array in self._arrays if value.equal(array)]
        return names if len(names) == 1 else []


def _ids_by_name(nested: Any) -> Iterator[tuple[Any, Any]]:
    for name, value in _values_by_key(nested).items():
        if is_ids(value):
            yield name, value
        elif isinstance(value, (dict, list)):
            yield from _ids_by_name(value)


def _storage(tensor: Any) -> int:
    storage = getattr(tensor, "untyped_storage", tensor.storage)  # new in torch 2
    return int(storage().data_ptr())
