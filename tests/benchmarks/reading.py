"""Where the time of `profile` goes, by format and stage.

python tests/benchmarks/reading.py DATA [--mb 60] [--rounds 5] [--tokenizer NAME] [--only txt]

DATA holds wikipedia-en.txt.gz (one text per line) and tokenizers/NAME/tokenizer.json. The same
texts are written in every format, into a temporary folder. The stages of `profile` are then run one
by one, each on the output of those before it, and `profile` with writing its result as a whole. The
baselines run in turn with them: a pass over the bytes that counts newlines, `hashlib.sha256` of
bytes in memory, and pyarrow's own reader of the format. Figures are medians, in MB of text per
second.

*reading* is everything from the disk to samples, in one thread, beside which others count; *whole*
is `profile` with writing. *cores* is processor time by wall time of the whole; *of counting* the
whole's speed by that of counting alone; *bound* the slowest of counting and the stages of reading
where reading is slower than counting.
"""

import argparse
import csv
import gzip
import hashlib
import json
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

import batchstat
from batchstat.corpus.files.digests import content_digests
from batchstat.corpus.files.opening import open_source
from batchstat.corpus.files.sources import find_sources
from batchstat.corpus.files.splits import Split, splits_of
from batchstat.corpus.formats import READERS
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.reader import Block, CorpusReader
from batchstat.documents.base import to_text
from batchstat.documents.profile import profile_document
from batchstat.profiling.parquet import save_lengths
from batchstat.profiling.profile import Profile
from batchstat.tokenization.loading.load import load_tokenizer
from batchstat.tokenization.threads import cores, in_order

MB = 1_000_000
STAGES = ("disk", "digest", "decompress", "parse", "check", "count", "write")
FORMATS = ("txt", "txt.gz", "txt.zst", "jsonl", "csv", "parquet", "arrow")


def texts_of(data: Path, size: int) -> list[str]:
    """The first texts of Wikipedia, of about `size` bytes together."""
    texts: list[str] = []
    with gzip.open(data / "wikipedia-en.txt.gz", "rt", encoding="utf-8", newline="\n") as file:
        for line in file:
            texts.append(line.rstrip("\n"))
            size -= len(line)
            if size <= 0:
                break
    return texts


def write(folder: Path, texts: list[str], kind: str) -> Path:
    """The texts in a format, with a label in those that have columns."""
    path = folder / f"corpus.{kind}"
    labels = [f"label {len(text) % 7}" for text in texts]
    if kind.startswith("txt"):
        codec = {"txt": None, "txt.gz": "gzip", "txt.zst": "zstd"}[kind]
        with pa.output_stream(path, compression=codec) as out:
            out.write("".join(f"{text}\n" for text in texts).encode())
    elif kind == "jsonl":
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for text, label in zip(texts, labels, strict=True):
                line = {"text": text, "label": label}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
    elif kind == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *zip(texts, labels, strict=True)])
    else:
        table = pa.table({"text": texts, "label": labels})
        if kind == "parquet":
            pq.write_table(table, path, compression="zstd", row_group_size=100_000)
        else:
            with pa.ipc.new_file(path, table.schema) as out:
                out.write_table(table, max_chunksize=20_000)
    return path


def seconds(work: Callable[[], object]) -> float:
    """Wall time."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def drain(items: Iterator[object]) -> None:
    """Take everything and hold nothing."""
    deque(items, maxlen=0)


def read_through(path: Path) -> None:
    """Read a file in the blocks in which batchstat reads it."""
    with path.open("rb") as file:
        while file.read(8 << 20):
            pass


def decompress(splits: tuple[Split, ...]) -> None:
    """Read the decompressed bytes."""
    for split in splits:
        with open_source(split) as opened:
            while opened.stream.read(8 << 20):
                pass


def parse(splits: tuple[Split, ...], options: CorpusOptions) -> None:
    """Read the columns as they stand in the file."""
    for split in splits:
        with open_source(split) as opened:
            drain(READERS[split.source.format](opened, options))


def by_pyarrow(path: Path, kind: str) -> None:
    """Read the file with pyarrow's own reader, all columns, with all of its threads."""
    if kind == "csv":
        quoted = pyarrow.csv.ParseOptions(newlines_in_values=True)
        pyarrow.csv.read_csv(path, parse_options=quoted)
    elif kind == "jsonl":
        pyarrow.json.read_json(path)
    elif kind == "parquet":
        pq.read_table(path)
    elif kind == "arrow":
        with pa.memory_map(str(path)) as file:
            pa.ipc.open_file(file).read_all().validate(full=True)
    else:  # a file without columns
        with pa.input_stream(path, compression="detect") as file:
            whole = pyarrow.csv.ParseOptions(delimiter="\x01", quote_char=False)
            named = pyarrow.csv.ReadOptions(column_names=["text"])
            pyarrow.csv.read_csv(file, named, whole)


def count(splits: tuple[Split, ...], options: CorpusOptions, name: str) -> float:
    """Seconds to count the samples, which are in memory."""
    blocks = list(CorpusReader(splits, options).blocks())
    tokenizer = load_tokenizer(name)

    def counted(block: Block) -> object:
        return tokenizer.count(block.content)

    return seconds(lambda: drain(in_order(counted, blocks, cores())))


def baselines(path: Path, text: bytes, kind: str) -> dict[str, float]:
    """Seconds of what any program would have to do at least."""
    raw = path.read_bytes()
    return {
        "newlines": seconds(lambda: np.count_nonzero(np.frombuffer(text, np.uint8) == 10)),
        "sha256": seconds(lambda: hashlib.sha256(raw)),
        "pyarrow": seconds(lambda: by_pyarrow(path, kind)),
    }


def stages(path: Path, name: str, folder: Path, label: str | None) -> dict[str, float]:
    """Seconds of each stage by itself, and of the whole; `busy` is the whole's processor time."""
    options = CorpusOptions(label_column=label)
    splits = splits_of(find_sources([path]), options)
    disk = seconds(lambda: read_through(path))
    digest = seconds(lambda: [content_digests(split) for split in splits])
    unpacked = seconds(lambda: decompress(splits))
    parsed = seconds(lambda: parse(splits, options))
    checked = seconds(lambda: drain(CorpusReader(splits, options).blocks()))
    counted = count(splits, options, name)
    load = seconds(lambda: load_tokenizer(name))
    cpu, began = time.process_time(), time.perf_counter()
    profile = batchstat.profile(path, tokenizer=name, label_column=label)
    saved = seconds(lambda: save(profile, folder))
    whole, busy = time.perf_counter() - began, time.process_time() - cpu
    return {
        "disk": disk,
        "digest": max(digest - disk, 0),
        "decompress": max(unpacked - disk, 0),
        "parse": max(parsed - unpacked, 0),
        "check": max(checked - parsed, 0),
        "count": counted,
        "write": saved,
        "reading": checked,
        "whole": whole - load,
        "busy": busy,
    }


def save(profile: Profile, folder: Path) -> None:
    """Write what the command `profile` writes, plots apart."""
    with (folder / "lengths.parquet").open("wb") as file:
        save_lengths(profile, file)
    (folder / "profile.json").write_text(to_text(profile_document(profile)), encoding="utf-8")


def bound(found: dict[str, float]) -> str:
    """What takes longest of what runs beside one another."""
    if found["count"] >= found["reading"]:
        return "count"
    return max(("disk", "decompress", "parse", "check"), key=found.__getitem__)


def measure(path: Path, name: str, text: bytes, kind: str, rounds: int) -> dict[str, float]:
    """The median of each figure, the first round not counted."""
    label = None if kind.startswith("txt") else "label"
    with tempfile.TemporaryDirectory() as folder:
        every = [
            stages(path, name, Path(folder), label) | baselines(path, text, kind)
            for _ in range(rounds + 1)
        ][1:]
    return {key: median(each[key] for each in every) for key in every[0]}


def row(kind: str, found: dict[str, float], size: float) -> str:
    """One line of the table."""

    def rate(key: str) -> str:
        return f"{size / found[key]:,.0f}" if found[key] > 1e-4 else "–"

    names = (*STAGES, "reading", "whole", "newlines", "sha256", "pyarrow")
    cells = [kind, *map(rate, names)]
    cells += [f"{found['busy'] / found['whole']:.1f}", f"{found['count'] / found['whole']:.2f}"]
    return f"| {' | '.join([*cells, bound(found)])} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--mb", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokenizer", default="gpt2")
    parser.add_argument("--only", default="", help="the format of this name")
    arguments = parser.parse_args()
    name = str(arguments.data / "tokenizers" / arguments.tokenizer / "tokenizer.json")
    texts = texts_of(arguments.data, arguments.mb * MB)
    text = "\n".join(texts).encode()
    columns = [*STAGES, "reading", "whole", "*newlines*", "*sha256*", "*pyarrow*"]
    columns += ["cores", "of counting", "bound"]
    print(f"| format | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}")
    with tempfile.TemporaryDirectory() as folder:
        for kind in FORMATS:
            if arguments.only in ("", kind):
                path = write(Path(folder), texts, kind)
                found = measure(path, name, text, kind, arguments.rounds)
                print(row(kind, found, len(text) / MB), flush=True)
                path.unlink()


if __name__ == "__main__":
    main()
