"""The lines of a recording, as `recorder/` writes them; those that somebody edited are refused.
Keys may be added without another format, so that an older batchstat reads the rest.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from batchstat.errors import InputError
from batchstat.recording.recorder.log import FORMAT
from batchstat.recording.recorder.read_batches import nested
from batchstat.words import short

_UNUSED = "were computed and never stepped"
_UNENDED = "came after the last step that was recorded"

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
"""What a forward computes, as `part_of` of the recorder writes it."""
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
        "before": (..., 1),
        "today": (..., 1),
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
_APPLIED = {
    "why_not": str,
    "why_not_regrouped": (..., str),
    "apart": float,
    "outputs": 0,
    "seconds": float,
}
_FACTS = {
    **dict.fromkeys(("id", "created"), str),
    "command": (..., [str]),
    "python": (..., None, str),
    "applied": (..., None, _APPLIED),
}
_MOST = 2**63 - 1  # of whole numbers, which become numbers of 64 bits
_MOST_SECONDS = 1e12  # some 30,000 years


def are_facts(facts: Any) -> bool:
    """Return whether a value of JSON is the facts of a run; ValueError for a wrong date."""
    return _fits(_FACTS, facts) and datetime.fromisoformat(facts["created"]).tzinfo is not None


def is_line(line: dict[str, Any]) -> bool:
    """Return whether a line is of a recording, by its kind."""
    return type(line["k"]) is str and _fits(_LINES.get(line["k"]), line)


def _check_lines(lines: list[dict[str, Any]]) -> None:
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
    """Raise ValueError unless all lists of a batch are of the same rows, samples and parts."""
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


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of the file of a process, without a last one that a killed process did not
    finish. Raises InputError for a file of another format, or one that was edited.
    """
    texts, lines = path.read_bytes().split(b"\n"), list[dict[str, Any]]()
    for number, text in enumerate(texts, 1):
        if line := parsed(text):
            lines.append(line)
        elif number < len(texts):  # only what follows the last line break may be unfinished
            raise edited(path, f"line {number:,} is")
    if not lines:
        return lines
    if (written := lines[0].get("format", FORMAT)) != FORMAT:
        raise InputError(
            f"{path.as_posix()}: a recording of format {short(written)}, which this version of "
            f"batchstat does not read (it reads {FORMAT})",
            "record it again",
        )
    try:
        _check_lines(lines)
    except ValueError:
        raise edited(path, "this is") from None
    return lines


def parsed(text: bytes) -> dict[str, Any] | None:
    """Return a line from its text; None if it is not one."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and "k" in line else None


def edited(path: Path, fault: str) -> InputError:
    """Return the error that says that a file of a recording was edited."""
    return InputError(f"{path.as_posix()}: {fault} not as batchstat wrote it", "record it again")


def first_training(lines: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the lines of a Trainer's first training, with that of the end of the process; and how
    many trainings follow: each `train()` of a script writes a line of its Trainer as it begins.
    """
    starts = [place for place, line in enumerate(lines) if line["k"] == "trainer"]
    stops = [  # of each training with a batch, the place behind its last line
        stop
        for start, stop in pairwise([*starts, len(lines)])
        if any(line["k"] == "batch" for line in lines[start:stop])
    ]
    if len(stops) < 2:
        return lines, 0
    end = [line for line in lines[stops[0] :] if line["k"] == "end"]
    return [*lines[: stops[0]], *end], len(stops) - 1


def steps_of(lines: list[dict[str, Any]]) -> Iterator[tuple[int, str]]:
    """Yield the number of the step of each computed batch, and why that was not made, in words."""
    # Where an optimizer steps later, no earlier zero_grad was the end of a step.
    has_optimizer = any(line.get("by", "zero_grad") != "zero_grad" for line in lines)
    # The batches since the last step, cut where gradients were cleared.
    groups: list[list[dict[str, Any]]] = [[]]
    for line in lines:
        if line["k"] == "batch":
            groups[-1].append(line)
        elif line["k"] == "step" and (
            "cleared" in line or (has_optimizer and line.get("by") == "zero_grad")
        ):
            groups.append([])
        elif line["k"] == "step":
            # Stepped, too, is what was cleared before no batch (clipping), or the same again (SAM).
            first = len(groups) - 1 if groups[-1] else 0
            while first and _is_again(groups[first - 1], groups[first]):
                first -= 1
            yield from ((batch["s"], _UNUSED) for group in groups[:first] for batch in group)
            yield from ((line["s"], "") for group in groups[first:] for _ in group)
            groups = [[]]
    yield from ((batch["s"], _UNUSED) for group in groups[:-1] for batch in group)
    why = _UNUSED if any(line["k"] == "end" for line in lines) else _UNENDED
    yield from ((batch["s"], why) for batch in groups[-1])


def _is_again(batches: list[dict[str, Any]], later: list[dict[str, Any]]) -> bool:
    """Return whether later batches begin with the same samples, which then have no numbers."""
    return len(batches) <= len(later) and all(
        one["parts"] == other["parts"]
        and "numbers" not in other
        and ("numbers" in one or one["digests"] == other["digests"])
        for one, other in zip(batches, later, strict=False)
    )
