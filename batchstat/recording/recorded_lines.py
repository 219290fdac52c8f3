"""The lines of a recording, as `recorder/` writes them, and whether those of a file are such, so
that lines that somebody edited are refused and not counted.

Keys may be added without another format, so that an older batchstat reads the rest.
"""

from datetime import datetime
from itertools import chain
from typing import Any

from batchstat.recording.recorder.lines import nested

_PART = {
    "w": [1, ...],
    "by": str,
    "loss": str,
    "n": (..., None, list),
    "y": (..., list),
    "rows": (..., None, 1),
    "ends": (..., [[int, int]]),
    "decoder": (..., None, [0]),
    "labelled": (..., [0]),
    "labelled_real": (..., [0]),
    "carry": (..., 0),
    "straight": (..., bool),
    "doubt": (..., str),
}
"""What a forward computes, as `recorder.lines.part_of` writes it."""
_READ = {
    "parts": [_PART, ...],
    "epoch": (..., None, 0),
    "sources": (..., [(None, [0])]),
    "numbers": (..., None, [[0]]),
    "digests": (..., [str]),
    "one": (..., 1),
}
"""A batch, computed or only read."""
_LINES: dict[str, dict[str, Any]] = {
    "begin": {
        **dict.fromkeys(("id", "program", "python", "torch"), str),
        "format": int,
        "rank": 0,
        "world_size": 1,
        "at": float,
    },
    "trainer": {
        **dict.fromkeys(("kind", "version", "framework", "arguments_class"), str),
        "arguments": dict,
        "world_size": 1,
        "own_loss": [str],
        "samples_by_arguments": bool,
        "stream": (..., bool),
        "collator": (..., str),
        "labels": (..., [str]),
        "multiple": 1,
        "has_decoder": bool,
        "takes_count": bool,
        "together": (..., str),
        "samples": (..., None, 0),
    },
    "batch": {
        **_READ,
        "s": 0,
        "t": (..., [float, float]),
        "device": (..., str),
        "epoch_batches": (..., None, 0),
        "unused": (..., [0, 0]),
        "stream": (..., bool),
    },
    "rest": _READ,
    "step": {"s": 0, "t": [float, ...], "by": (..., str)},
    "handed": {"e": 0, "n": [0], "d": str},
    "end": {
        "why": str,
        "unused": [0, 0],
        "partly": (..., str),
        "threads": (..., 2),
        "tail": (..., 1),
    },
    # What a process notes of itself.
    "started": {},
    "torch": {},
    "nothing": {"unused": [0, 0], "waiting": 0},
    "refused": {"why": str},
    "ended": {"code": int},
}
"""What `_fits` asks of a line, by its kind."""
_FACTS = {"id": str, "created": str, "command": (..., [str]), "python": (..., None, str)}
_MOST = 2**63 - 1  # of whole numbers, which become numbers of 64 bits
_MOST_SECONDS = 1e12  # some 30,000 years


def are_facts(facts: Any) -> bool:
    """Return whether a value of JSON is the facts of a run; ValueError for a wrong date."""
    return _fits(_FACTS, facts) and datetime.fromisoformat(facts["created"]).tzinfo is not None


def is_line(line: dict[str, Any]) -> bool:
    """Return whether a line is of a recording, by its kind."""
    return type(line["k"]) is str and _fits(_LINES.get(line["k"]), line)


def check_lines(lines: list[dict[str, Any]]) -> None:
    """Raise ValueError unless these are lines of a recording, the first that of its beginning."""
    for line in lines:
        if not is_line(line):
            raise ValueError("not a line of a recording")
        if line["k"] in ("batch", "rest"):
            _check_read(line)
    steps = [line["s"] for line in lines if line["k"] in ("batch", "step")]
    if steps != sorted(steps):
        raise ValueError("lines in another sequence")
    if lines[0]["k"] != "begin" or lines[0]["rank"] >= lines[0]["world_size"]:
        raise ValueError("not the beginning of a recording")


def _fits(kind: Any, value: Any) -> bool:
    """Return whether a value of JSON is of a kind: a type, or None; a whole number, for one that is
    not smaller; a tuple, for any of its kinds; a dictionary, for an object with these keys, which
    may lack those of kind `...`; `[kind]` for a list, `[kind, ...]` for one that is not empty,
    `[kind, kind]` for one of two.
    """
    if isinstance(kind, tuple):
        return any(_fits(each, value) for each in kind)
    if isinstance(kind, dict):
        return type(value) is dict and all(
            _fits(of, value[key]) if key in value else isinstance(of, tuple) and ... in of
            for key, of in kind.items()
        )
    if isinstance(kind, list):
        of, *more = kind
        if type(value) is not list or (more == [...] and not value):
            return False
        if more == [of] and len(value) != 2:
            return False
        # A run has millions of whole numbers: if the smallest and the largest fit, all do.
        ends = (min(value), max(value)) if set(map(type, value)) == {int} else value
        return all(_fits(of, each) for each in ends)
    if kind is float:  # JSON may write 1.0 as 1
        return type(value) in (int, float) and abs(value) <= _MOST_SECONDS
    if type(kind) is int:
        return type(value) is int and kind <= value <= _MOST
    # Types are compared exactly, since to Python true and false are whole numbers.
    return value is None if kind is None else type(value) is kind


def _check_read(line: dict[str, Any]) -> None:
    """Raise ValueError unless all lists of each part of a batch are of the same rows and samples,
    none wider than the part, and the lists of the batch have a value for each part.
    """
    for part in line["parts"]:
        real = part.get("n")
        rows = part.get("rows") if real is None else len(real)
        lists_of_rows = filter(None, map(part.get, ("y", "decoder", "labelled", "labelled_real")))
        # Ends are those of an encoder and of a decoder one after the other.
        n_ends = len(part.get("ends", ()))
        if not rows or any(len(numbers) != rows for numbers in lists_of_rows) or n_ends % rows:
            raise ValueError("numbers of other rows")
        lengths, trained = nested(real or []), nested(part.get("y", []))
        if not _fits([0], [*chain.from_iterable(lengths + trained)]):
            raise ValueError("no numbers of tokens")
        if any(sum(row) > sum(part["w"]) for row in lengths):
            raise ValueError("more tokens than its width")
        if real is not None and "y" in part and [*map(len, trained)] != [*map(len, lengths)]:
            raise ValueError("trained tokens of other samples")
    sources = line.get("sources")
    if sources and any(source is not None and len(source) != 3 for source in sources):
        raise ValueError("not an iterator, its data set and its loader")
    for samples_of_parts in (line.get("numbers"), line.get("digests") or None, sources):
        if samples_of_parts is not None and len(samples_of_parts) != len(line["parts"]):
            raise ValueError("samples of other forwards")
