"""Columnar files: Parquet, and Arrow's own (feather, and what `datasets` saves)."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from batchstat.corpus.arrow_values import decoded, decoded_type, holds_text, is_list, record_ranges
from batchstat.corpus.bad_records import BadRecord
from batchstat.corpus.chunk import Chunk, Columns
from batchstat.corpus.columns import choose_columns
from batchstat.corpus.files.opening import OpenSource, seekable
from batchstat.corpus.formats.ipc import open_batches
from batchstat.corpus.formats.parquet_files import CHUNK_BYTES, MOST_RECORDS, open_parquet
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.records_path import Inside
from batchstat.errors import SourceError


def read_parquet(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield the requested columns of the row groups that begin in the split. Raises InputError."""
    with seekable(opened) as unpacked, _readable(opened.path, "Parquet"):
        parquet = open_parquet(unpacked, opened.path)
        file = parquet.file
        columns = columns_of(opened.path, file.schema_arrow, options)
        groups = parquet.groups_in(opened.split)
        rows_of_groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        records_before_split = sum(rows_of_groups[: groups[0]]) if groups else 0
        claimed = sum(rows_of_groups[i] for i in groups)  # records of the split, says the footer
        read = 0
        for batch in parquet.batches(unpacked, groups, columns.all):
            read += len(batch)
            # pyarrow reads where it likes: the position for progress is estimated by the records.
            position = opened.split.bytes * read // max(claimed, 1)
            yield from as_chunks(batch, columns, position, lambda: records_before_split)
        # Where a footer claims too many records, pyarrow reads fewer without an error.
        if read != claimed:
            raise pa.ArrowInvalid(f"it has {read:,} records where its footer says {claimed:,}")


def read_arrow(opened: OpenSource, options: CorpusOptions) -> Iterator[Chunk]:
    """Yield the requested columns of an Arrow IPC file or stream. Raises InputError."""
    with seekable(opened) as file, _readable(opened.path, "Arrow"):
        schema, batches = open_batches(file, opened.path)
        columns = columns_of(opened.path, schema, options)
        for batch in batches:
            # What was compressed has more bytes here than on disk.
            position = min(file.tell(), opened.size)
            yield from as_chunks(batch, columns, position)


def as_chunks(
    batch: pa.RecordBatch, columns: Columns, position: int, count_before: Callable[[], int] = int
) -> Iterator[Chunk]:
    """Yield the columns of a batch, checked, in chunks of about 8 MiB. Raises ArrowInvalid."""
    read = {name: column_of(batch, name) for name in columns.all}
    checked = {name: _checked(values) for name, values in read.items()}
    # `_checked` returned these as bytes, as some of their texts are not UTF-8.
    not_utf8 = [name for name, values in checked.items() if values.type != read[name].type]
    class_names = {
        name: names
        for name in columns.labels
        if name in batch.schema.names and (names := _class_names(batch.schema, name))
    }
    # Consecutive records from `start` to before `stop`, within both limits.
    for start, stop in record_ranges(checked.values(), len(batch), CHUNK_BYTES, MOST_RECORDS):
        values_of = {name: values.slice(start, stop - start) for name, values in checked.items()}
        for name, names_of_classes in class_names.items():
            values_of[name] = _named_classes(values_of[name], names_of_classes)
        bad: dict[int, BadRecord] = {}
        for name in not_utf8:
            values_of[name] = _texts_of_bytes(decoded(values_of[name]), name, bad)
        yield Chunk(values_of, columns, position, bad=bad, count_before=count_before)


def _named_classes(labels: pa.Array, class_names: list[str]) -> pa.Array:
    """Return the name of the class that each label numbers; for a list, a list of names."""
    # A number without a name, such as -1, becomes null.
    if is_list(labels.type):
        named = [
            None if numbers is None else _names_of_list(numbers, class_names)
            for numbers in labels.to_pylist()
        ]
        return pa.array(named, pa.large_list(pa.large_string()))
    numbers = decoded(labels)
    has_name = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(class_names)))
    indices = pc.if_else(has_name, numbers, None)
    return pa.array(class_names, pa.large_string()).take(indices)


def _names_of_list(numbers: list[int | None], class_names: list[str]) -> list[str]:
    # Three or more numbers that are 0 and 1 are not classes: one would be there twice.
    if len(numbers) == len(class_names) > 2 and set(numbers) <= {0, 1}:
        return [name for name, one in zip(class_names, numbers, strict=True) if one]
    known = range(len(class_names))
    return [class_names[number] for number in numbers if number is not None and number in known]


def _checked(values: pa.Array) -> pa.Array:
    """Return a column unchanged if it is valid, and as bytes if some of its texts are not UTF-8."""
    try:
        values.validate(full=True)
        return values
    except pa.ArrowInvalid:
        if not holds_text(values.type):
            raise
    # Invalid text is not UTF-8, and valid as bytes; or damaged, and not valid as bytes either.
    dtype = values.type
    as_bytes = values.cast(
        pa.dictionary(dtype.index_type, pa.large_binary())
        if pa.types.is_dictionary(dtype)
        else pa.large_binary()
    )
    as_bytes.validate(full=True)
    return as_bytes


def _class_names(schema: pa.Schema, label: str) -> list[str]:
    """Return the names of the classes that a column has as numbers, by these numbers."""
    # The datasets library stores a class as a number, and the names in the metadata of the schema.
    try:
        metadata = json.loads((schema.metadata or {})[b"huggingface"])
        feature = metadata["info"]["features"][label]
        is_list_of = isinstance(feature, list) or "feature" in feature
        # Lists are written in two ways, by versions of datasets.
        inner = feature[0] if isinstance(feature, list) else feature.get("feature", feature)
        names = inner["names"]
        # Raises UnicodeEncodeError, a ValueError, for half a surrogate pair, which JSON can escape.
        "".join(names).encode()
    # The metadata are missing, do not have this column, or have another shape.
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        return []
    label_type = schema.field(label).type
    if is_list_of != is_list(label_type):
        return []
    label_type = label_type.value_type if is_list_of else label_type
    has_numbers = pa.types.is_integer(decoded_type(label_type))
    has_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if has_numbers and has_names else []


def _texts_of_bytes(values: pa.LargeBinaryArray, name: str, bad: dict[int, BadRecord]) -> pa.Array:
    """Return the column `name` as texts; null stays null."""
    texts: list[str | None] = []
    for i, value in enumerate(values.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            message = f"column {name!r} is not UTF-8 (0x{value[error.start]:02x})"
            bad.setdefault(i, BadRecord("not_utf8", message))
            texts.append("")
    return pa.array(texts, pa.large_string())


def columns_of(path: str, schema: pa.Schema, options: CorpusOptions) -> Columns:
    """Choose which columns of a table are read; see `choose_columns`."""
    texts = [field.name for field in schema if holds_text(field.type)]
    structs = [field for field in schema if pa.types.is_struct(field.type)]
    lists = [field for field in schema if is_list(field.type)]
    inside = Inside(
        texts=[
            f"{field.name}.{part.name}"
            for field in structs
            for part in field.type
            if holds_text(part.type)
        ],
        words=[field.name for field in lists if holds_text(field.type.value_type)],
    )
    # Of fields of structs, those that are named are columns like others.
    named = [
        name
        for name in dict.fromkeys(options.named_columns)
        if name not in schema.names and _type_at(schema, name) is not None
    ]
    return choose_columns(path, [*schema.names, *named], texts, options, inside)


def _type_at(schema: pa.Schema, name: str) -> pa.DataType | None:
    """Return the type of a field inside of structs, by its dotted name; None if there is none."""
    column, *fields = name.split(".")
    dtype = schema.field(column).type if column in schema.names else None
    for field in fields:
        if dtype is None or not pa.types.is_struct(dtype):
            return None
        at = dtype.get_field_index(field)
        dtype = dtype.field(at).type if at >= 0 else None
    return dtype


def top_columns(names: Iterable[str], schema: pa.Schema) -> list[str]:
    """Return the columns that have these, which may be fields inside of their structs."""
    tops = (name if name in schema.names else name.partition(".")[0] for name in names)
    return list(dict.fromkeys(tops))


def column_of(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column, or a field inside of its structs; null where one of these is null."""
    if name in batch.schema.names:
        return batch.column(name)
    column, *fields = name.split(".")
    values = batch.column(column)
    for field in fields:
        values = pc.struct_field(values, field)
    return values


@contextmanager
def _readable(path: str, kind: str) -> Iterator[None]:
    """Turn what pyarrow raises for a damaged file into a SourceError; `kind` names the format."""
    try:
        yield
    # A damaged file may claim impossible sizes, and names of columns that are not text.
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        reason = (str(error).splitlines() or ["damaged"])[0]
        raise SourceError(f"{path} is not a readable {kind} file: {reason}") from None
