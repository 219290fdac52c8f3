"""Every file that batchstat reads again: intact, or an error of one line that names it."""

import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import batchstat
from batchstat.errors import BatchstatError, InputError, OptionError
from batchstat.profiling.cache import CountCache, SplitCounts, SplitFacts
from batchstat.profiling.parquet import read_file, save_lengths
from batchstat.profiling.staleness import changes
from batchstat.storage.sealed_records import digest_of, parse
from batchstat.training.reading import read_samples
from conftest import resealed, write_jsonl
from tables import in_turn

KEY = "ab" * 32
WRONG: list[Any] = [None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 0.5, -0.5, 1e300]
WRONG += ["", "x", "0", "\x00", "\ud800", "a" * 10_000, [], [1], ["x"], {}, {"x": 1}, [[]]]
"""What a value may be instead."""


def meaning(found: Any) -> Any:
    """What was read as something that can be compared."""
    if isinstance(found, np.ndarray):
        return found.tolist()
    if isinstance(found, tuple | list):
        return [meaning(each) for each in found]
    if isinstance(found, dict):
        return {key: meaning(each) for key, each in found.items()}
    return meaning(vars(found)) if hasattr(found, "__dict__") else found


@dataclass(frozen=True)
class Kind:
    """A file, and how it is read."""

    path: Path
    read: Callable[[Path], Any]

    def found(self) -> Any:
        """What is in it now."""
        return meaning(self.read(self.path))

    def record(self) -> dict[str, Any]:
        """What batchstat wrote of the table."""
        metadata = pq.read_schema(self.path).metadata
        record: dict[str, Any] = json.loads(metadata[b"batchstat"])
        return record

    def rewrite(self, record: dict[str, Any]) -> None:
        """Say something else of it."""
        table = pq.read_table(self.path)
        metadata = {"batchstat": json.dumps(record)}
        pq.write_table(table.replace_schema_metadata(metadata), self.path)


NAMES = ("lengths", "labels", "lists", "cached")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("kept")
    texts = write_jsonl(
        folder / "texts.jsonl",
        [
            {"text": "word " * (i % 7 + 1), "y": "abc"[i % 3], "ys": list("abc"[: i % 3])}
            for i in range(30)
        ],
    )
    found = {}
    for name, label in (("lengths", None), ("labels", "y"), ("lists", "ys")):
        found[name] = folder / f"{name}.parquet"
        profile = batchstat.profile(texts, text_column="text", label_column=label)
        with found[name].open("wb") as file:
            save_lengths(profile, file)
    CountCache(str(folder)).put(KEY, SplitCounts(profile, SplitFacts(("sha256:0",), True)))
    found["cached"] = folder / f"{KEY}.counts"
    return found


@pytest.fixture
def kept(files: dict[str, Path], tmp_path: Path) -> Callable[[str], Kind]:
    def copy(name: str) -> Kind:
        path = tmp_path / files[name].name
        path.write_bytes(files[name].read_bytes())
        if name == "cached":
            return Kind(path, lambda path: CountCache(str(path.parent)).get(KEY))
        return Kind(path, read_file)

    return copy


def refused(kind: Kind) -> str | None:
    """What is said of the file; None where it can be read, empty for a cache's."""
    try:
        return None if kind.read(kind.path) is not None else ""
    except BatchstatError as error:
        text = str(error)
        assert kind.path.as_posix() in text, text
        remedies = ("again", "move it away", "Is a directory")
        assert any(each in text for each in remedies), text
        assert len(text.splitlines()) == 1
        assert len(text) < 600, text
        return text


@in_turn("name", NAMES)
def test_a_flipped_bit_changes_nothing_or_is_an_error(kept, name):
    kind = kept(name)
    intact, content = kind.found(), kind.path.read_bytes()
    assert intact is not None
    for bit in random.Random(name).sample(range(8 * len(content)), 80):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        kind.path.write_bytes(damaged)
        if refused(kind) is None:
            assert kind.found() == intact, bit


@in_turn("name", NAMES)
def test_what_is_cut_short_or_another_file(kept, files, name):
    kind = kept(name)
    content = kind.path.read_bytes()
    others = [path.read_bytes() for path in files.values() if path.suffix != kind.path.suffix]
    cuts = [content[: len(content) * i // 20] for i in range(20)]
    odd = [b"[" * 100_000, b"\xff\xfe{}", "{}".encode("utf-16"), b"null", b"PAR1PAR1", b"\x00" * 99]
    for damaged in (*cuts, *others, *odd):
        kind.path.write_bytes(damaged)
        assert refused(kind) is not None
    kind.path.unlink()
    kind.path.mkdir()
    assert refused(kind) is not None


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a record."""
    yield path
    inside = value.items() if isinstance(value, dict) else ()
    for key, each in enumerate(value) if isinstance(value, list) else inside:
        yield from places(each, (*path, key))


def changed(record: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A copy with another value at a place; `...` for none."""
    copy = json.loads(json.dumps(record))
    below = copy
    for key in path[:-1]:
        below = below[key]
    if value is ...:
        del below[path[-1]]
    else:
        below[path[-1]] = value
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != "cached"])
def test_wrong_types_for_every_value_are_never_a_traceback(kept, name):
    """As if batchstat had written them: also with a digest that is right."""
    kind = kept(name)
    record = kind.record()
    tried = 0
    whole = {key: value for key, value in record.items() if key != "digest"}
    for turn, path in enumerate(places(whole)):
        is_free = len(path) > 1 and path[0] == "fingerprint"  # compared only
        for value in () if is_free or not path else (*WRONG[turn % 3 :: 3], ...):
            try:
                odd = resealed(changed(record, path, value))
            except ValueError:  # what JSON cannot say
                continue
            kind.rewrite(odd)
            said = refused(kind)
            tried += 1
            if said is None and name in ("lengths", "labels", "lists"):
                list(changes(read_file(kind.path)))
                with suppress(BatchstatError):
                    read_samples(kind.path)
    assert tried > 50
    kind.rewrite(resealed(record | {"more_of_it": 1}))
    assert "more_of_it is unknown" in str(refused(kind))
    kind.rewrite(record | {"digest": "blake2b:0"})
    assert "digest differs" in str(refused(kind))


def stated(record: dict[str, Any]) -> dict[str, Any]:
    """A sampler's state with other values and a digest that is right."""
    source = {key: record[key] for key in ("source",) if key in record}
    return resealed({key: value for key, value in record.items() if key != "source"}) | source


@pytest.mark.parametrize("name", ["sampler", "stream"])
def test_wrong_types_for_every_value_of_a_state(name):
    lengths = list(range(1, 60))

    def made() -> Any:
        if name == "sampler":
            return batchstat.BatchSampler(lengths, tokens_per_batch=128, max_length=64)
        spec = "token-budget:read_ahead=10"
        return batchstat.StreamBatcher(lengths, length=int, strategy=spec, tokens_per_batch=128)

    begun = made()
    running = iter(begun)
    for _ in range(5):
        next(running)
    state = json.loads(json.dumps(begun.state_dict()))
    rest = [*running]
    for turn, path in enumerate(places(state)):
        for value in (*WRONG[turn % 3 :: 3], ...) if path else ():
            odd = changed(state, path, value)
            other = made()
            try:  # with a digest of what it was before
                other.load_state_dict(odd)
                assert list(other) == rest, (path, value)
            except BatchstatError:
                pass
            with suppress(BatchstatError, ValueError):
                other = made()
                other.load_state_dict(stated(odd))
                list(other)
    for value in WRONG:
        with pytest.raises(OptionError):
            made().load_state_dict(value)


def test_a_state_that_was_edited():
    sampler = batchstat.BatchSampler([5, 6, 7], tokens_per_batch=8)
    with pytest.raises(OptionError, match="was damaged or edited: its digest differs"):
        sampler.load_state_dict(sampler.state_dict() | {"batches": 1})
    stream = batchstat.StreamBatcher([5, 6], length=int)
    with pytest.raises(OptionError, match="after 3 samples of 0 windows"):
        stream.load_state_dict(stated(stream.state_dict() | {"samples": 3}))
    state = stated(stream.state_dict() | {"batches": 9})
    stream.load_state_dict(state)
    with pytest.raises(InputError, match="the source does not match the state"):
        list(stream)


CHANGED_COLUMNS: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "null": (lambda t: put(t, "length", 0, None), "contains 1 null values"),
    "negative": (lambda t: put(t, "length", 3, -5), "length is -5 in row 3: must be between"),
    "too long": (lambda t: put(t, "length", 3, 10**9 + 1), "length is 1000000001 in row 3"),
    "one more token": (lambda t: put(t, "length", 3, 99), "column length was damaged or edited"),
    "another record": (lambda t: put(t, "record", 29, 5), "record is 5 in row 29, which does not"),
    "far record": (lambda t: put(t, "record", 29, 30), "record is 30 in row 29: must be between"),
    "all records 0": (lambda t: put(t, "record", slice(None), [0] * 30), "does not ascend"),
    "half": (lambda t: t.slice(0, 15), "has 15 rows but was written with 30"),
    "none": (lambda t: t.slice(0, 0), "has 0 rows but was written with 30"),
    "floats": (lambda t: cast(t, "length", pa.float64()), "column length has type double"),
    "small integers": (lambda t: cast(t, "length", pa.int32()), "column length has type int32"),
    "no label": (lambda t: t.drop_columns(["label"]), "column label was damaged or edited"),
    "no length": (lambda t: t.drop_columns(["length"]), "its columns are record, label"),
    "another order": (lambda t: t.select(["length", "record", "label"]), "its columns are"),
    "other labels": (
        lambda t: t.set_column(2, "label", pa.array(["x"] * 30).dictionary_encode()),
        "column label was damaged or edited",
    ),
    "no metadata": (lambda t: t.replace_schema_metadata({}), "no batchstat metadata"),
}


def put(table: pa.Table, name: str, row: Any, value: Any) -> pa.Table:
    values = table[name].to_pylist()
    values[row] = value
    column = pa.array(values, table[name].type)
    return table.set_column(table.column_names.index(name), name, column)


def cast(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    column = table[name].cast(kind)
    return table.set_column(table.column_names.index(name), name, column)


@in_turn("name", CHANGED_COLUMNS)
def test_columns_that_are_not_what_was_written(kept, name):
    change, message = CHANGED_COLUMNS[name]
    kind = kept("labels")
    pq.write_table(change(pq.read_table(kind.path)), kind.path)
    assert message in str(refused(kind))


def test_the_same_numbers_written_by_another_program_are_the_same_profile(kept):
    for name in ("labels", "lists"):
        kind = kept(name)
        intact = kind.found()
        table = pq.read_table(kind.path)
        pq.write_table(table, kind.path, compression="gzip", row_group_size=7)
        assert kind.found() == intact


def test_a_key_twice_and_numbers_that_are_none():
    twice = ('{"a": 1, "a": 1}', '{"a": {"b": 1, "b": 2}}')
    for text in (*twice, "[NaN]", "[Infinity]", "[-Infinity]"):
        with pytest.raises(ValueError, match=r"appears 2 times|is not a JSON number"):
            parse(text)
    assert parse('{"b": 1, "a": [1, 2.5]}') == {"b": 1, "a": [1, 2.5]}
    assert digest_of({"a": (1, 2), "b": None}) == digest_of({"b": None, "a": [1, 2]})
    assert digest_of([1]) != digest_of([True])
    assert digest_of([1]) != digest_of([1.0])


@pytest.mark.parametrize("odd", ["folder", "full folder", "pipe", "link to itself", "empty"])
def test_what_is_no_file_in_the_place_of_a_cache_entry(files, tmp_path, odd):
    path = tmp_path / f"{KEY}.counts"
    if odd.endswith("folder"):
        path.mkdir()
        if odd.startswith("full"):
            (path / "kept.txt").write_text("a user's")
    elif odd == "pipe":
        os.mkfifo(path)
    elif odd == "empty":
        path.touch()
    else:
        path.symlink_to(path)
    store = CountCache(str(tmp_path))
    assert store.get(KEY) is None
    intact = CountCache(str(files["cached"].parent)).get(KEY)
    assert intact is not None
    store.put(KEY, intact)
    assert meaning(store.get(KEY)) == meaning(intact)
    texts = [each.read_text() for each in tmp_path.glob("*.aside/kept.txt")]
    assert texts == (["a user's"] if odd.startswith("full") else [])
