"""The state of Python objects as a digest. The counts of a tokenizer written in Python depend on
whatever its class reads and stores in its attributes, such as the ranks of merges, and no file has
all of that: so the digest includes everything that these refer to, directly or not.
"""

import copyreg
import hashlib
import secrets
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import tokenizers

_SPLITS = "\nencode_special_tokens: "


class _OpaqueError(Exception):
    """An object that does not expose its state."""


def state_digest(thing: object, folders: Collection[str] = ()) -> str:
    """Return the SHA-256 of all that an object holds; random where something hides its state."""
    # The longest come first: if a text begins with two folders, the inner one is left out.
    walk = _Walk(tuple(sorted(folders, key=len, reverse=True)))
    try:
        walk.add(thing)
    except (_OpaqueError, RecursionError):
        return secrets.token_hex(32)
    return walk.digest.hexdigest()


def definition_of(backend: tokenizers.Tokenizer) -> str:
    """Return all of a tokenizer that can change a count. Raise Exception for parts in Python."""
    return full_definition(backend.to_str(), backend.encode_special_tokens)


def full_definition(definition: str, splits_special_tokens: bool) -> str:
    """Return a tokenizer.json with what it omits: whether special tokens in a text are split."""
    return f"{definition}{_SPLITS}{splits_special_tokens}"


def parts_of_definition(full: str) -> tuple[str, bool]:
    """Return the two parts of which `full_definition` made a definition."""
    definition, _, splits_special_tokens = full.rpartition(_SPLITS)
    return definition, splits_special_tokens == "True"


class _Walk:
    """Adds an object and all that it refers to to a digest, each after its kind and its size."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self.digest = hashlib.sha256()
        self._folders = folders
        # The position of each object that was added, by its id: an object may refer to itself.
        self._positions: dict[int, int] = {}
        self._alive: list[object] = []

    def add(self, thing: object) -> None:
        """Add any object. Raise _OpaqueError if it does not expose its state."""
        to_bytes = _PLAIN.get(type(thing))
        if to_bytes is not None:
            self._put(type(thing).__name__, to_bytes(thing))
        elif type(thing) is str:
            folder = next((each for each in self._folders if thing.startswith(each)), "")
            kind = "path" if folder else "str"
            self._put(kind, thing[len(folder) :].encode("utf-8", "surrogatepass"))
        elif id(thing) in self._positions:
            # An object that was added before is only named, by its position.
            self._put("again", str(self._positions[id(thing)]).encode())
        else:
            self._positions[id(thing)] = len(self._positions)
            self._alive.append(thing)  # an id may be reused once its object is freed
            self._add_object(thing)

    def _put(self, kind: str, content: bytes) -> None:
        self.digest.update(f"{kind} {len(content)}:".encode())
        self.digest.update(content)

    def _add_name(self, thing: Any) -> None:
        name = getattr(thing, "__qualname__", thing.__name__)
        self._put("name", f"{getattr(thing, '__module__', None)}.{name}".encode())

    def _add_object(self, thing: Any) -> None:
        """Add an object that was not added before, in the way of its type."""
        if type(thing) in _CONTAINERS:
            self._add_container(thing)
        elif isinstance(thing, type | ModuleType | BuiltinFunctionType):
            self._add_name(thing)
        elif isinstance(thing, FunctionType):
            self._add_function(thing)
        elif isinstance(thing, MethodType):
            self._add_name(thing)
            self.add(thing.__self__)
        elif isinstance(thing, Enum):
            self._add_name(type(thing))
            self._put("member", thing.name.encode())
        elif isinstance(thing, tokenizers.Tokenizer):
            try:
                self._put("tokenizer", definition_of(thing).encode())
            except Exception:  # tokenizers raises bare Exception
                raise _OpaqueError from None
        else:
            self._add_reduced(thing)

    def _add_container(self, things: Any) -> None:
        """Add a built-in container with its items."""
        kind = type(things).__name__
        # The order of a set differs between processes: its items are sorted by their digests.
        if isinstance(things, set | frozenset):
            self._put(kind, b"".join(sorted(map(self._digest_of_item, things))))
            return
        self._put(kind, str(len(things)).encode())
        for item in things.items() if isinstance(things, dict) else things:
            self.add(item)

    def _digest_of_item(self, thing: object) -> bytes:
        walk = _Walk(self._folders)
        walk.add(thing)
        return walk.digest.digest()

    def _add_function(self, function: FunctionType) -> None:
        """Add a function: its name, its defaults, and the variables that it takes from outside."""
        self._add_name(function)
        # A lambda or an inner function may share its name with others, so its code is added.
        if "<" in function.__qualname__:
            code = function.__code__
            self.add((code.co_firstlineno, code.co_code, code.co_consts, code.co_names))
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        self.add((function.__defaults__, function.__kwdefaults__, cells))

    def _add_reduced(self, thing: Any) -> None:
        """Add any other object by what pickle would store, and attributes it may leave out."""
        self._add_name(type(thing))
        # As in pickle, a function that is registered for the type comes first; 4 is the protocol.
        reduce = copyreg.dispatch_table.get(type(thing))
        try:
            reduced = reduce(thing) if reduce else thing.__reduce_ex__(4)
        except Exception:  # a class that cannot be pickled may raise anything
            raise _OpaqueError from None
        if isinstance(reduced, str):  # the name of a global object
            self._put("global", reduced.encode())
            return
        for part in reduced:
            # The items of lists and dictionaries come as iterators.
            self.add(list(part) if isinstance(part, Iterator) else part)
        # A class with a __getstate__ of its own may leave attributes out.
        has_own_state = getattr(type(thing), "__getstate__", None) is not _PICKLES_ALL
        if has_own_state and hasattr(thing, "__dict__"):
            is_model = type(thing).__module__.startswith("sentencepiece")
            handles = _SENTENCEPIECE_HANDLES if is_model else ()
            self.add({key: value for key, value in vars(thing).items() if key not in handles})


_SENTENCEPIECE_HANDLES = ("this", "_processor")
"""Attributes of a SentencePieceProcessor that hold the model as an object of C++. Its
`__getstate__` returns the bytes of the model, so they are left out."""

_PICKLES_ALL: object = object.__getstate__
"""The `__getstate__` of classes that define none: it returns all attributes."""

_CONTAINERS = (dict, list, tuple, set, frozenset)

_PLAIN: Mapping[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"",
    type(...): lambda _: b"",
    bool: lambda value: str(value).encode(),
    int: lambda value: f"{value:x}".encode(),
    float: lambda value: struct.pack("<d", value),
    complex: lambda value: struct.pack("<dd", value.real, value.imag),
    bytes: bytes,
    bytearray: bytes,
}
"""Types whose value is their whole state."""
