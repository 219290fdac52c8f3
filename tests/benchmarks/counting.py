"""How fast tokens are counted, against tokenizing, in one run on the same texts and cores.

python tests/benchmarks/counting.py DATA [--rounds 5] [--output FOLDER]

DATA holds wikipedia-en.txt.gz (one text a line), multilingual.txt, gsm8k.jsonl, sms-spam.tsv, and
tokenizers/NAME/tokenizer.json. Every line of the table is the baseline's time, which is
`tokenizers.Tokenizer.encode_batch_fast` over the same texts, divided by ours, both by a tokenizer
that is loaded and has counted nothing; the median of the rounds. The number after the slash is for
one call of `batchstat.token_lengths`, which loads the engine while it counts. The counts are
checked to be equal. It writes counting.md and counting.json.
"""

import argparse
import base64
import gzip
import itertools
import json
import os
import platform
import random
import shutil
import statistics
import string
import subprocess
import sys
import sysconfig
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import tokenizers
import transformers

import batchstat
from batchstat.tokenization.counting import count_check
from batchstat.tokenization.counting.count_check import CountCheck
from batchstat.tokenization.counting.engine_counter import _load
from batchstat.tokenization.loading.load import as_tokenizer
from batchstat.tokenization.threads import cores
from batchstat.tokenization.token_lengths import _counts
from batchstat.tokenization.tokenizer import Tokenizer

BATCH = 10_000
MB = 1_000_000


def corpora(data: Path) -> dict[str, list[str]]:
    """Texts by the name of their corpus."""
    with gzip.open(data / "wikipedia-en.txt.gz", "rt", encoding="utf-8", newline="\n") as file:
        wiki = file.read().split("\n")
    rng = random.Random(0)
    letters = string.ascii_lowercase
    words = [" ".join("".join(rng.choices(letters, k=9)) for _ in range(60)) for _ in range(5000)]
    binary = [base64.b64encode(rng.randbytes(400)).decode() for _ in range(5000)]
    library = Path(sysconfig.get_paths()["stdlib"])
    sources = [path.read_text(encoding="utf-8", errors="ignore") for path in library.rglob("*.py")]
    lines = (data / "gsm8k.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line) for line in lines]
    sms = (data / "sms-spam.tsv").read_text(encoding="utf-8").split("\n")
    multilingual = (data / "multilingual.txt").read_text(encoding="utf-8").split("\n")
    return {
        "Wikipedia, 15 MB": wiki[: len(wiki) // 4],
        "Wikipedia, 30 MB": wiki[: len(wiki) // 2],
        "Wikipedia, 60 MB": wiki,
        "standard library, files": sources[: len(sources) // 2],
        "112 languages": multilingual,
        "imitated Chinese": imitations(list(filter(is_chinese, multilingual)), 20_000, rng),
        "questions (gsm8k)": [each["question"] + "\n" + each["answer"] for each in questions],
        "messages (sms-spam)": [line.partition("\t")[2] for line in sms],
        "base64": binary,
        "random words": words,
    }


def is_chinese(text: str) -> bool:
    """Whether it has Chinese characters, and none of Japanese or Korean."""
    names = {unicodedata.name(sign, "").split(" ")[0] for sign in text if sign.isalpha()}
    return "CJK" in names and names.isdisjoint({"HIRAGANA", "KATAKANA", "HANGUL"})


def imitations(texts: list[str], number: int, rng: random.Random) -> list[str]:
    """Texts of 100 characters, each of which follows the one before it in one of the texts."""
    following: dict[str, list[str]] = {}
    for sign, after in itertools.pairwise("\n".join(texts)):
        following.setdefault(sign, []).append(after if after != "\n" else " ")
    following.setdefault(" ", []).extend(text[0] for text in texts)
    chain = list(itertools.islice(walk(following, rng), number * 100))
    return ["".join(chain[first : first + 100]) for first in range(0, len(chain), 100)]


def walk(following: dict[str, list[str]], rng: random.Random) -> Iterator[str]:
    """Characters without end, each one of those that may follow the one before it."""
    sign = " "
    while True:
        sign = rng.choice(following[sign])
        yield sign


def seconds(work: Callable[[], object]) -> tuple[float, object]:
    """How long it took, and what it gave."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def fresh(texts: list[str]) -> list[str]:
    """Copies, as a reader gives them: Python keeps the UTF-8 of a text that was encoded before."""
    return [text.encode().decode() for text in texts]


def load(path: Path) -> tokenizers.Tokenizer:
    """A tokenizer that has counted nothing."""
    tokenizer = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def baseline(tokenizer: tokenizers.Tokenizer, texts: list[str]) -> np.ndarray:
    """The counts, by encoding every text."""
    counts: list[int] = []
    for first in range(0, len(texts), BATCH):
        counts += map(len, tokenizer.encode_batch_fast(texts[first : first + BATCH]))
    return np.array(counts)


def batch_call(tokenizer: Any, texts: list[str]) -> np.ndarray:
    """The counts, by transformers' call on many texts."""
    counts: list[int] = []
    for first in range(0, len(texts), BATCH):
        ids = tokenizer(texts[first : first + BATCH], verbose=False)["input_ids"]
        counts += map(len, ids)
    return np.array(counts)


def one_at_a_time(tokenizer: Any, texts: list[str]) -> np.ndarray:
    """The counts, by transformers' call on each text."""
    return np.array([len(tokenizer(text, verbose=False)["input_ids"]) for text in texts])


def counted(tokenizer: Tokenizer, texts: list[str]) -> np.ndarray:
    """The counts, by what `batchstat.token_lengths` does with a tokenizer that is loaded."""
    return _counts(tokenizer, texts, cores())


def measure(path: Path, texts: list[str], rounds: int) -> dict[str, object]:
    """Both ways in turn, so that a drift of the machine's speed falls on both alike."""
    size = sum(len(text.encode()) for text in texts) / MB
    expected = baseline(load(path), texts)
    ratios, cold, rates = [], [], []
    for _ in range(rounds):
        ours = as_tokenizer(load(path))
        if ours.encoder.engine is not None:
            ours.encoder.engine.load()
        base, counts = seconds(partial(baseline, load(path), fresh(texts)))
        assert np.array_equal(counts, expected)
        own, counts = seconds(partial(counted, ours, fresh(texts)))
        assert np.array_equal(counts, expected), f"{path.name}: the counts differ"
        _load.cache_clear()
        whole, counts = seconds(partial(batchstat.token_lengths, fresh(texts), load(path)))
        assert np.array_equal(counts, expected), f"{path.name}: the counts differ"
        ratios.append(base / own)
        cold.append(base / whole)
        rates.append(size / own)
    return {
        "mb": size,
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "loading_included": statistics.median(cold),
        "mb_per_s": statistics.median(rates),
    }


def others(path: Path, texts: list[str]) -> dict[str, float]:
    """What users do today, as a share of the baseline's speed on the same texts."""
    base, expected = seconds(partial(baseline, load(path), texts))
    loaded = transformers.AutoTokenizer.from_pretrained(path)
    batch, counts = seconds(lambda: batch_call(loaded, texts))
    assert np.array_equal(counts, expected)
    single, counts = seconds(lambda: one_at_a_time(loaded, texts))
    assert np.array_equal(counts, expected)
    return {"transformers_batch": base / batch, "transformers_one_at_a_time": base / single}


def check_times(path: Path, texts: list[str]) -> dict[str, float]:
    """What the check adds to the time of counting, at three places of a file."""
    ours, found = as_tokenizer(load(path)), {}
    if ours.encoder.engine is not None:
        ours.encoder.engine.load()
    counted(ours, texts)
    for place, first_byte in (("", 0), (" after 8 MiB", 8 << 20), (" after 1 GiB", 1 << 30)):
        ratios = []
        for _ in range(5):
            with patch.object(CountCheck, "check"):
                without, _ = seconds(partial(counted, ours, fresh(texts)))
            with patch.object(count_check, "_PLACE", ContextVar("place", default=(first_byte, 0))):
                with_check, _ = seconds(partial(counted, ours, fresh(texts)))
            ratios.append(with_check / without - 1)
        found[f"time of the check{place}"] = statistics.median(ratios)
    return found


def whole_file(path: Path, texts: list[str]) -> dict[str, float]:
    """A file to its profile, and the bound: `wc -w` on it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "corpus.txt"
        file.write_text("\n".join(texts), encoding="utf-8", newline="\n")
        base, _ = seconds(partial(baseline, load(path), texts))
        name = str(path / "tokenizer.json")
        ours, _ = seconds(lambda: batchstat.profile(file, tokenizer=name))
        found = {"profile": base / ours}
        if shutil.which("wc"):
            words, _ = seconds(lambda: subprocess.run(["wc", "-w", file], capture_output=True))
            found["wc -w"] = base / words
    return found


def machine() -> str:
    """What it ran on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    model = f"{models[0]} ({platform.machine()})" if models else platform.machine()
    return (
        f"{cores} cores of {model}, Python {platform.python_version()}, "
        f"tokenizers {tokenizers.__version__}, transformers {transformers.__version__}, "
        f"fastokens {version('fastokens')}"
    )


def table(results: dict[str, dict[str, dict]], names: list[str], extras: dict[str, dict]) -> str:
    """The ratios, a row a corpus and a column a tokenizer."""
    rows = [f"| corpus | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for corpus, by_name in results.items():
        cells = " | ".join(
            f"{by_name[name]['ratio']:.1f} / {by_name[name]['loading_included']:.1f}"
            for name in names
        )
        rows.append(f"| {corpus} | {cells} |")
    for what in next(iter(extras.values()), {}):
        cells = " | ".join(f"{extras[name][what]:.2f}" for name in names)
        rows.append(f"| *{what.replace('_', ' ')}* | {cells} |")
    return "\n".join([*rows, "", f"Times the speed of encode_batch_fast; {machine()}."])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path())
    parser.add_argument("--only", nargs="+", help="corpora whose names hold one of these")
    parser.add_argument("--lines", nargs="+", type=Path, default=[], help="files, a text a line")
    parser.add_argument("--tokenizers", nargs="+", help="folders of them to measure")
    arguments = parser.parse_args()
    folders = sorted((arguments.data / "tokenizers").iterdir())
    folders = [each for each in folders if each.name in (arguments.tokenizers or [each.name])]
    texts = corpora(arguments.data)
    for file in arguments.lines:
        texts[file.name] = file.read_text(encoding="utf-8").splitlines()
    results: dict[str, dict[str, dict]] = {}
    for corpus in texts:
        if arguments.only and not any(part in corpus for part in arguments.only):
            continue
        for path in folders:
            found = measure(path, texts[corpus], arguments.rounds)
            results.setdefault(corpus, {})[path.name] = found
            print(f"{corpus}, {path.name}: {found['ratio']:.2f}", file=sys.stderr, flush=True)
    small = texts["Wikipedia, 15 MB"]
    extras = {
        path.name: others(path, small)
        | check_times(path, texts["Wikipedia, 60 MB"])
        | whole_file(path, texts["Wikipedia, 60 MB"])
        for path in folders
        if not arguments.only
    }
    text = table(results, [path.name for path in folders], extras)
    print(text)
    (arguments.output / "counting.md").write_text(text + "\n", encoding="utf-8")
    record = {"machine": machine(), "results": results, "others": extras}
    (arguments.output / "counting.json").write_text(json.dumps(record, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
