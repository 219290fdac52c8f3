"""The state of Python objects as a digest: equal digests mean equal state.

The counts of a tokenizer written in Python depend on whatever its class reads from its files and
stores in its attributes, such as the ranks of merges or the scores of a SentencePiece model, and no
definition contains all of it. So everything reachable from its attributes is included.
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


class _OpaqueError(Exception):
    """An object that does not expose its state."""


def state_digest(thing: object, folders: Collection[str] = ()) -> str:
    """Return the SHA-256, in hexadecimal, of everything that an object holds.

    If an object does not expose its state, such as one of a C extension that cannot be pickled, the
    digest is random, and equals no other.

    Args:
        thing: the object; it is only read.
        folders: paths that are ignored where a text begins with one of them.
    """
    walk = _Walk(tuple(sorted(folders, key=len, reverse=True)))
    try:
        walk.add(thing)
    except (_OpaqueError, RecursionError):
        return secrets.token_hex(32)
    return walk.digest.hexdigest()


def definition_of(backend: tokenizers.Tokenizer) -> str:
    """Return everything about a tokenizer of `tokenizers` that can change a count, as text.

    Raises:
        Exception: a component of it is written in Python.
    """
    return full_definition(backend.to_str(), backend.encode_special_tokens)


def full_definition(definition: str, splits_special_tokens: bool) -> str:
    """Return a tokenizer.json with what it omits: whether special tokens in a text are split."""
    return f"{definition}\nencode_special_tokens: {splits_special_tokens}"


class _Walk:
    """Digest of everything that one object reaches, as one sequence of bytes.

    Every item begins with its kind and its size, so that no two states give the same bytes.
    """

    def __init__(self, folders: tuple[str, ...]) -> None:
        self.digest = hashlib.sha256()
        self._folders = folders
        self._places: dict[int, int] = {}
        self._alive: list[object] = []

    def add(self, thing: object) -> None:
        """Add any object. Raise _OpaqueError if it does not expose its state."""
        plain = _PLAIN.get(type(thing))
        if plain is not None:
            self._put(type(thing).__name__, plain(thing))
        elif type(thing) is str:
            self._text(thing)
        elif id(thing) in self._places:
            self._put("again", str(self._places[id(thing)]).encode())
        else:
            self._places[id(thing)] = len(self._places)
            self._alive.append(thing)  # an id may be reused once its object is freed
            self._object(thing)

    def _put(self, kind: str, content: bytes) -> None:
        self.digest.update(f"{kind} {len(content)}:".encode())
        self.digest.update(content)

    def _text(self, text: str) -> None:
        folder = next((each for each in self._folders if text.startswith(each)), "")
        kind = "path" if folder else "str"
        self._put(kind, text[len(folder) :].encode("utf-8", "surrogatepass"))

    def _name(self, thing: Any) -> None:
        """Add the name of something that its library's version defines."""
        name = getattr(thing, "__qualname__", thing.__name__)
        self._put("name", f"{getattr(thing, '__module__', None)}.{name}".encode())

    def _object(self, thing: Any) -> None:
        if type(thing) in _CONTAINERS:
            self._container(thing)
        elif isinstance(thing, type | ModuleType | BuiltinFunctionType):
            self._name(thing)
        elif isinstance(thing, FunctionType):
            self._function(thing)
        elif isinstance(thing, MethodType):
            self._name(thing)
            self.add(thing.__self__)
        elif isinstance(thing, Enum):
            self._name(type(thing))
            self._put("member", thing.name.encode())
        elif isinstance(thing, tokenizers.Tokenizer):
            self._backend(thing)
        else:
            self._reduced(thing)

    def _container(self, things: Any) -> None:
        """Add a built-in container; only the order of a set differs between processes."""
        kind = type(things).__name__
        if isinstance(things, set | frozenset):
            self._put(kind, b"".join(sorted(map(self._apart, things))))
            return
        self._put(kind, str(len(things)).encode())
        for each in things.items() if isinstance(things, dict) else things:
            self.add(each)

    def _apart(self, thing: object) -> bytes:
        walk = _Walk(self._folders)
        walk.add(thing)
        return walk.digest.digest()

    def _function(self, function: FunctionType) -> None:
        self._name(function)
        if "<" in function.__qualname__:  # other functions may have the same name
            code = function.__code__
            self.add((code.co_firstlineno, code.co_code, code.co_consts, code.co_names))
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        self.add((function.__defaults__, function.__kwdefaults__, cells))

    def _backend(self, backend: tokenizers.Tokenizer) -> None:
        try:
            self._put("tokenizer", definition_of(backend).encode())
        except Exception:  # tokenizers raises bare Exception
            raise _OpaqueError from None

    def _reduced(self, thing: Any) -> None:
        """Add any other object as it would be pickled, and its attributes if that may omit some."""
        self._name(type(thing))
        reduce = copyreg.dispatch_table.get(type(thing))
        try:
            reduced = reduce(thing) if reduce else thing.__reduce_ex__(4)
        except Exception:  # a class that cannot be pickled may raise anything
            raise _OpaqueError from None
        if isinstance(reduced, str):
            self._put("global", reduced.encode())
            return
        for part in reduced:
            # The items of lists and dictionaries come as iterators.
            self.add(list(part) if isinstance(part, Iterator) else part)
        chooses = getattr(type(thing), "__getstate__", None) is not _TAKES_ALL
        if chooses and hasattr(thing, "__dict__"):
            own = vars(thing).items()
            is_model = type(thing).__module__.startswith("sentencepiece")
            hidden = _SENTENCEPIECE_HANDLES if is_model else ()
            self.add({key: value for key, value in own if key not in hidden})


_SENTENCEPIECE_HANDLES = ("this", "_processor")
"""Where a SentencePieceProcessor stores the bytes that its `__getstate__` returns: the model."""

_TAKES_ALL: object = object.__getstate__

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
