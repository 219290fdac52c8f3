"""Every mistake ends in one line, with its exit code, and leaves earlier results as they were."""

import gzip
import io
import json
import os
import pickle
import shlex
import subprocess
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from conftest import Run, check_schema, two_words_definition
from file_bytes import arrow, npy, parquet, zstd
from tables import in_turn

pytestmark = pytest.mark.usefixtures("tokenizers_loaded_once")

Content = str | bytes


def zipped() -> bytes:
    with zipfile.ZipFile(sink := io.BytesIO(), "w") as archive:
        archive.writestr("a.txt", "text\n")
    return sink.getvalue()


def tar(packing: str, kind: int = tarfile.PAX_FORMAT) -> bytes:
    with tarfile.open(mode=f"w:{packing}", fileobj=(sink := io.BytesIO()), format=kind) as archive:
        archive.add(__file__, "a.txt")
    return sink.getvalue()


def chat(*messages: object) -> str:
    good = [{"role": "user", "content": "a"}]
    return "".join(json.dumps({"messages": each}) + "\n" for each in (good, list(messages)))


GOOD = "text,label\nsome words,a\nmore words than that,b\n"
A, X = '{"text": "a"}\n', json.dumps({"text": "x" * 1000})
DEEP = "[" * 10_000 + "]" * 10_000
SMS = "ham\tGo until jurong point, crazy.. Available only in bugis\n" * 3
LINE = (b"some words here " * 64)[:-1] + b"\n"
LARGE = LINE * 9_000
"""More than the 8 MiB that are read at a time."""
NOISE = bytes(np.random.default_rng(0).integers(32, 127, 200_000, dtype=np.uint8))
IDS = np.random.default_rng(0).integers(0, 50_000, 5_000)
TOOL = {"type": "function", "function": {"name": "look_up", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [TOOL]}
OWN_CODE = json.dumps({"model_type": "own", "auto_map": {"AutoTokenizer": ["own.Own", None]}})
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{7:064d}\nsize 24264603\n"
TABLE = {"text": ["a b", "c d e"]}
S, F, P = arrow(TABLE), arrow(TABLE, pa.ipc.new_file), parquet(TABLE)
CUT = S[:-1], S[:-8], S[:-30], S[:-200], S[:-300]
"""In its end, between two messages, in one, in the one before, and in the schema."""
NPY = npy(3, 4)
PACKED = gzip.compress(b"some text\n" * 1000)
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
"""A frame of zstd that holds no text."""
TEXT, CHATS, DATA = "--text-column text", "--messages-column messages", "--records data"
SKIP = "--on-error skip"

# A file, the flags of `profile` that read it, and what the line says beside its name.
FILES: list[tuple[str, Content, str, str]] = [
    # No samples
    ("a.txt", "", "", "a.txt is empty"),
    ("a.txt", "\n  \n\t\n", "", "no samples in a.txt: all records were skipped (3 blank)"),
    ("a.txt", "ab\n\ncd\n", "--min-chars 3", "(1 blank, 2 short)"),
    ("a.csv", "text,y\n", TEXT, "no samples in a.csv: it has no records"),
    # Characters
    ("a.txt", b"ok\nfine\nnot \xff\n", "", "line 3: byte 12 is not UTF-8 (0xff)"),
    ("a.txt", LARGE + b"caf\xe9\n" + LINE, "", "line 9001: byte 9216003 is not UTF-8 (0xe9)"),
    ("a.csv", b"text\n" + LARGE + b"caf\xe9\n", "", "line 9002: byte 9216008 is not UTF-8 (0xe9)"),
    ("a.json", b'[{"text": "caf\xe9"}]', "", "byte 14 is not UTF-8 (0xe9)"),
    ("a.txt", b"a\nGr\xfc\xdfe\n", "", "byte 4 is not UTF-8 (0xfc): name its encoding, as in --en"),
    ("a.txt", b"a" * 300_000 + b"\xff\n", "--encoding ascii", "byte 300,000 (0xff) is not ascii"),
    ("a.txt", "some words\n".encode("utf-16"), "", "is UTF-16: pass --encoding utf-16"),
    ("a.txt", "some words\n".encode("utf-16-le"), "", "is UTF-16: pass --encoding utf-16-le"),
    ("a.jsonl", A.encode("utf-16-be"), "", "is UTF-16: pass --encoding utf-16-be"),
    ("a.csv", "text\nwords\n".encode("utf-16"), SKIP, "is UTF-16: pass --encoding utf-16"),
    # Tables
    ("a.csv", "id,body\n1,x\n", "", "cannot tell the text column (has: id, body): pass --text-col"),
    ("a.csv", "text,review\n1,x\n", "", "cannot tell the text column (has: text, review)"),
    ("a.csv", GOOD, "--text-column body", "column 'body' not in a.csv (has: text, label): pass --"),
    ("a.csv", GOOD, "--label-column class", "column 'class' not in a.csv (has: text, label): pass"),
    ("a.csv", "text,text\na,b\n", TEXT, "column 'text' appears 2 times: rename one"),
    ("a.csv", "q,a\na b,c\n", "--text-column q,a", "pass --text-column q --text-column a"),
    ("a.csv", 'text,y\n1,2\n"o,2\nb,3\n', TEXT, "line 3: not RFC 4180 (unexpected end of data)"),
    ("a.csv", 'id,text\n1,"x" y\n', TEXT, "line 2: not RFC 4180 ('"),
    ("a.csv", "id,text\n1,x\ry\n", TEXT, "line 2: not RFC 4180 (a carriage return alone"),
    ("a.csv", "text,y\na,1\nb\n", TEXT, "line 3: the number of fields is 1, not 2"),
    ("a.csv", "id,text\n1,x\n1,x,y\n", TEXT, "line 3: the number of fields is 3, not 2"),
    ("a.tsv", "text\ty\na\t1\nb\t2\t3\n", TEXT, "line 3: the number of fields is 3, not 2"),
    ("a.tsv", "id\ttext\n1\n", TEXT, "line 2: the number of fields is 1, not 2"),
    ("a.tsv", b"te\xfft\ty\na\t1\n", SKIP, "line 1: cannot parse the header"),
    ("a.tsv", SMS, "", "; its first row looks like data: if it is, pass --no-header"),
    ("a.tsv", SMS, "--label-column x", "if it is, pass --no-header"),
    ("a.csv", "n\n3\nx\n", "--length-column n", "line 3: 'n' is text where a whole number is expe"),
    ("a.csv", f"n\n{'9' * 5000}\n", "--length-column n", "line 2: 'n' is text where a whole"),
    ("a.txt", "x\n", TEXT, "is plain text and has no column 'text': pass its real --input-format"),
    # Lines of JSON
    ("a.jsonl", A + '{"text": "b"\n', "", "line 2: malformed JSON: Expecting ',' delimiter"),
    ("a.jsonl", A + '{"text": "b', "", "line 2: malformed JSON: Unterminated string starting at c"),
    ("a.jsonl", A + '{"text": \n', "", "line 2: malformed JSON: Expecting value at column 10"),
    ("a.jsonl", A + f'{{"text": "b", "x": {DEEP}}}\n', "", "line 2: malformed JSON: nested too de"),
    ("a.jsonl", "[" * 100_000 + "\n", "", "line 1: malformed JSON"),
    ("a.jsonl", "5\n", "", "line 1: a number where an object is expected"),
    ("a.jsonl", '{"text": "a", "text": "b"}\n', "", "line 1: malformed JSON: key 'text' appears 2"),
    ("a.jsonl", A + "5\n", "", "line 2: a number where an object is expected"),
    ("a.jsonl", A + '{"txt": "b"}\n', "", "line 2: column 'text' is missing (has: txt)"),
    ("a.jsonl", A + '{"text": null}\n', "", "line 2: 'text' is null where text is expected"),
    ("a.jsonl", A * 9000 + '{"text": 5}\n', "", "line 9001: 'text' is a number where text is exp"),
    ("a.jsonl", A + '{"text": ["b"]}\n', "", "line 2: 'text' is a list where text is expected"),
    ("a.jsonl", A + '{"text": "\\ud800"}\n', "", "line 2: half a surrogate pair"),
    ("a.jsonl", '{"text": "a", "y": {}}\n', "--label-column y", "line 1: label 'y' is an object"),
    ("a.jsonl", '{"q": "a", "a": "b"}\n', "", "cannot tell the text column (has: q, a)"),
    ("a.jsonl", '{"input_ids": [1], "labels": [2]}\n', "", "labels): pass --tokens-column"),
    # Arrays of JSON
    ("a.json", "  ", "", "is not a JSON array"),
    ("a.json", '{"text": "a"}', "", "is one JSON object (has: text): put it into a list if it is"),
    ("a.json", "[5]", "", "record 0: a number where an object is expected"),
    ("a.json", '[{"text": "a"}', "", "record 0: malformed JSON: Expecting ',' or ']' at character"),
    ("a.json", '[{"text": "a"} {"text": "b"}]', "", "record 0: malformed JSON: Expecting ',' or '"),
    ("a.json", '[{"text": "b', "", "record 0: malformed JSON: Unterminated string starting at cha"),
    ("a.json", '[{"text": "a"},]', "", "record 1: malformed JSON"),
    ("a.json", '[{"text": "a", "text": "b"}]', "", "record 0: malformed JSON: key 'text' appears"),
    ("a.json", '[{"text": "a"}] [{"text": "b"}]', "", "something follows the end of the array"),
    ("a.json", "[" * 10_000, "", "record 0: malformed JSON: nested too deeply"),
    ("a.json", '[{"text": "a"}, {"tex": 1}]', "", "record 1: column 'text' is missing (has: tex)"),
    ("a.json", '[{"text": "a"}, {"text": {}}]', "", "record 1: 'text' is an object where text is"),
    # Where it is malformed, and not only at the end, for which it would be held whole
    ("a.json", f'[{X},{{"text": no}}{f",{X}" * 5000}]', "", "record 1: malformed JSON: Expecting"),
    # Paths into JSON
    ("a.json", '{"data": [{"text": "x"}]', DATA, "it ends within an object"),
    ("a.json", '{"data": [{"text": "x"}], "more": [1', DATA, "the file ends within a value"),
    ("a.json", '{"data": [{"text": "x"}', DATA, "malformed JSON"),
    ("a.json", '{"data": [{"text": "x"}]} x', DATA, "something follows"),
    ("a.json", '{"data": 3}', DATA, "is not a list: it is a number"),
    ("a.json", '{"rows": [], "n": 3}', DATA, "'data' is not there (has: rows, n)"),
    ("a.json", '[{"text": "x"}]', DATA, "has no 'data': it is a list"),
    ("a.json", '{"data": [{"x": [1]}]}', "--records data[].o[]", "its elements have nothing at .o"),
    ("a.json", "{" + "[" * 100_000, DATA, "malformed JSON"),
    ("a.json", '{"data": ' + "[" * 100_000, DATA, "nested too deeply"),
    ("a.json", '{"data": [], "data": []}', "--records other", "'other' is not there"),
    # Chats
    ("a.jsonl", chat({"role": "user"}), CHATS, "line 2: 'messages': message 0 has no content"),
    ("a.jsonl", chat({"role": "x", "content": "y"}), CHATS, "message 0 has the unknown role 'x' ("),
    ("a.jsonl", chat(CALLS), CHATS, "the chat template raises on message 0, which has no content"),
    # Columnar files
    ("a.parquet", parquet({"text": [1, 2]}), TEXT, "column 'text' is int64 where text is"),
    ("a.parquet", parquet({"text": ["a", None]}), "", "record 1: 'text' is null where text is"),
    ("a.parquet", parquet({"text": ["a"] * 1000})[:-100], "", "is not a readable Parquet file"),
    ("a.parquet", P[:10], "", "is not a readable Parquet file"),
    ("a.parquet", "not parquet at all", "", "is not a readable Parquet file"),
    ("a.parquet", P + P, "", "it is several files, one after another"),
    ("a.arrow", S + b"garbage", "", "ends at byte 312 is not an Arrow stream"),
    ("a.arrow", S + b"\0" * 8, "", "ends at byte 312 is not an Arrow stream"),
    ("a.arrow", S + F, "", "ends at byte 312 is not an Arrow stream"),
    ("a.arrow", S + arrow({"text": ["a"], "b": [1]}), "", "different columns"),
    ("a.arrow", F + F, "", "something follows the end of its stream at byte 320"),
    ("a.arrow", F + S, "", "is not a readable Arrow file"),
    ("a.arrow", P, "", "is not a readable Arrow file"),
    *(("a.arrow", cut, "", "is not a readable Arrow file") for cut in CUT),
    ("a.feather", F[:-5], "", "is not a readable Arrow file"),
    ("a.feather", F[:10], "", "is not a readable Arrow file"),
    # NumPy files
    ("a.npy", NPY * 2, "", "something follows its array"),
    ("a.npy", NPY + b"\0", "", "something follows its array"),
    ("a.npy", NPY.replace(b"(2,)", b"(-2,)"), "", "where whole numbers"),
    ("a.npy", NPY.replace(b"(2,), }  ", b"(2000000,), }"), "", "npy"),
    ("a.npy", npy(3, 4, kind="m8[s]"), "", "has timedelta64"),
    ("a.npy", npy(3, 4, kind="M8[s]"), "", "has datetime64"),
    ("a.npy", npy((3, 4), kind="i4,i4"), "", "where whole numbers"),
    ("a.npy", npy(True), "", "has bool"),
    ("a.npy", npy(1.5), "", "has float64 of shape"),
    ("a.npy", npy([1], [2]), "", "has int64 of shape"),
    ("a.npy", npy(-1), "", "record 0: 'length' is -1: must be between 0 and 1,000,000,000"),
    ("a.npy", npy(3, 2_000_000_000), "", "record 1: 'length' is 2000000000: must be between 0 and"),
    # Compressed files
    ("a.txt.gz", gzip.compress(NOISE)[:-5000], "", "is cut short: the compressed data ends early"),
    ("a.txt.gz", PACKED[:20] + bytes(20) + PACKED[40:], "", "a.txt.gz is damaged"),
    ("a.zst", SKIPPABLE + zstd(b"one\n") + b"x", "", "a.zst is damaged"),
    ("a.zst", zstd(NOISE)[:-5000], "", "is cut short"),
    *((f"a.txt.{z}", "plain\n", "", "has a compressed ext") for z in ("gz", "bz2", "xz", "zst")),
    # What is no data
    *(
        (f"a.{kind}", POINTER, "", "is a Git LFS pointer, not the data: run git lfs pull")
        for kind in ("txt", "csv", "tsv", "jsonl", "json", "parquet", "arrow", "npy")
    ),
    ("a.txt", "/annex/objects/SHA256E-s3--abc.txt\n", "", "a.txt is a git-annex pointer"),
    *((f"a.{kind}", zipped(), "", f"a.{kind} is a zip archive") for kind in ("bin", "csv", "npy")),
    ("a.bin", b"MMIDIDX\x00\x00" + bytes(100), "", "a.bin is an index of Megatron's"),
    ("a.bin", IDS.astype(np.uint16).tobytes(), "", "a.bin is binary, not text"),
    ("a.txt", IDS.astype(np.int32).tobytes(), "", "a.txt is binary, not text: "),
    ("a.csv", pickle.dumps({"text": ["a"] * 10}), "", "a.csv is a pickle"),
    ("a.txt", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "", "a.txt is a PDF"),
    ("a.tar", tar("", tarfile.USTAR_FORMAT), "", "a.tar is a tar archive: unpack it, and pass the"),
    *((f"a.tar.{z}", tar(z), "", f"a.tar.{z} is a tar archive") for z in ("gz", "bz2", "xz")),
    ("a.tar", tar("", tarfile.GNU_FORMAT), "", "a.tar is a tar archive"),
    # Tokenizers
    ("a.csv", GOOD, "--tokenizer ./no", "tokenizer './no': no such file or folder"),
    ("a.csv", GOOD, "--tokenizer no-such", "tokenizer 'no-such' cannot be loaded"),
    ("a.csv", GOOD, "--tokenizer a.csv", "tokenizer 'a.csv' cannot be loaded"),
    # Where results are written
    ("a.csv", GOOD, "-o a.csv", "a.csv cannot be written: "),
    ("a.csv", GOOD, "-o a.csv/deeper", "a.csv/deeper cannot be written: "),
]

STATES = {
    "[" * 100_000: "nested too deeply",
    '{"_data_files": NaN}': "NaN is not a JSON number",
    '{"_data_files": [], "_data_files": [{"filename": "a.arrow"}]}': "appears 2 times",
    '{"_data_files": []}': "is a saved dataset without data files",
    **{
        json.dumps({"_data_files": [{"filename": name}]}): "is not the name of an Arrow file"
        for name in ("b.txt", "/etc/passwd", "../saved/a.arrow", "", ".", "a.arrow/")
    },
}
SAVED = {"saved/a.arrow": S, "saved/b.txt": "not of it\n", "saved/dataset_info.json": "{}"}
CSV, LFS = {"a.csv": GOOD}, {"data/1.txt": "a line of text\n" * 9, "data/2.txt": POINTER}
OWN = {"own/config.json": OWN_CODE, "own/tokenizer_config.json": OWN_CODE}
OWN |= {"a.txt": "a\n", "own/own.py": "raise SystemExit('was run')"}
BROKEN = {"a.txt": "a\n", "t/tokenizer.json": '{"version": "1.0", "mod'}
SFT = {"sft.json": '{"max_length": 48, "datasets": [{"path": "json", "data_files": "gone.jsonl"}]}'}
WORDS = {"a.txt": "some words\nunknown words\n", "two.json": two_words_definition()}
RESULTS = "batchstat-results"

# Files, what is typed, and what the line says.
INPUTS: list[tuple[dict[str, Content], str, str]] = [
    ({}, "profile nowhere.txt", "no such file: nowhere.txt"),
    ({}, "compare", f"no profile in {RESULTS}: name a corpus, or run batchstat profile"),
    ({f"{RESULTS}/lengths.parquet": "x"}, "compare", f"{RESULTS}/lengths.parquet is not a profile"),
    ({"a.txt": ""}, "compare a.txt", "a.txt is empty"),
    ({"a/notes.md": "x"}, "profile a", "no data files in a"),
    ({"a.csv/notes.md": "x"}, "profile a.csv", "no data files in a.csv"),
    (LFS, "check data --max-padding 99%", "data/2.txt is a Git LFS pointer, not the data: run git"),
    *((SAVED | {"saved/state.json": state}, "profile saved", STATES[state]) for state in STATES),
    (CSV, "compare a.csv --max-length 1 --overflow drop", "overflow=drop leaves no sample"),
    (CSV, "compare a.csv --batch-size 50 --drop-last", "no batches left: "),
    ({"a.jsonl": '{"ids": []}\n' * 2}, "compare a.jsonl --tokens-column ids", "no tokens in 2 sam"),
    (CSV | {f"{RESULTS}/plots": "x"}, "profile a.csv", f"{RESULTS}/plots cannot be written: it is"),
    ({"a.txt": "a\n", "t/x.md": "x"}, "profile a.txt --tokenizer t", "the folder has no tokenizer"),
    (BROKEN, "profile a.txt --tokenizer t", "'t' cannot be loaded: tokenizer.json is malformed"),
    ({"a.txt": "a", "t.json": "{}"}, "profile a.txt --tokenizer t.json", "'t.json' cannot be load"),
    (OWN, "profile a.txt --tokenizer own", "it requires trust_remote_code, which batchstat never"),
    (WORDS, "profile a.txt --tokenizer two.json", "a.txt, line 2: tokenizer 'two.json' cannot cou"),
    # Told before a tokenizer is loaded, which may take seconds, and which is not there
    ({"a.jsonl": '{"q": "", "a": ""}'}, "profile a.jsonl --tokenizer no/such", "cannot tell the t"),
    (CSV, "compare a.csv --model no", "model 'no' cannot be loaded: no such file or folder"),
    ({"c.json": "{"}, "check no.txt --calibration c.json", "c.json is not a calibration, nor JSON"),
    (SFT, "compare --current sft.json", "gone.jsonl"),
    (SFT, "check --current sft.json --max-padding 5%", "gone.jsonl"),
    ({}, "profile owner/some", "run hf download --repo-type dataset owner/some"),
    # Addresses
    ({}, "profile zip://*.txt::file:///a.zip", "chains several addresses"),
    ({}, "profile simplecache::https://h/a.txt", "chains several addresses"),
    ({}, "profile simplecache::https://u:SECRET@h/a.txt", "error: simplecache::https://…@h/a.txt"),
    ({}, "profile https://h/a::SECRET.txt", "error: https://h/a::… chains"),
    ({}, "profile https://u:SEC/RET@h/a.txt", "https://…@h/a.txt contains a character that"),
    ({}, "profile 'https://h/a.txt?key=SECRET SECRET'", "https://h/a.txt?… contains a character t"),
    ({}, "profile https://…@h/a.txt?…", "was shortened when it was shown or stored"),
    ({}, "profile 's3://bucket/a.txt?versionId=1&…'", "was shortened"),
    ({}, "profile generic://x", "generic://x does not name the file system that generic:// reads"),
    ({}, "profile reference://x", "does not name the file system that reference:// reads"),
    ({}, "profile zip://x", "does not name the file system"),
    ({}, "profile data://text/plain,SECRET", "is content, not a place"),
    ({}, "profile data:text/plain,SECRET", "data:…: the content of a data: address is not"),
    ({}, "profile data:text/plain", "the content of a data: address is not read"),
    ({}, "profile s3:bucket/key", "s3:bucket/key: an address has :// after its scheme"),
]

MISSING = (
    "profile gone",
    "profile 'gone-*.txt'",
    "profile a.txt --tokenizer ./gone",
    "profile a.txt --config gone.toml",
    "profile chats.jsonl --chat-template gone.jinja --messages-column messages",
    "compare a.txt --calibration gone.json",
    "compare a.txt --current gone.yaml",
    "compare a.txt --sampler weights=gone.json",
    "compare",
    "preflight gone.yaml",
    "measure gone",
    "check --config gone.toml",
)
"""What names something that is not there, whatever it is."""

# What is typed that is wrong by itself, and the line.
USAGE = {
    "compar": "unknown command 'compar': did you mean 'compare'? (known: balance, buckets, calibra",
    "--xyzzy": "unknown option '--xyzzy' of batchstat: run batchstat --help for all options",
    "compare --xyzzy": "unknown option '--xyzzy' of batchstat compare: run batchstat compare --hel",
    "compare --strateg x": "unknown option '--strateg' of batchstat compare: did you mean '--strat",
    "compare --strateg=x": "unknown option '--strateg' of batchstat compare: did you mean '--strat",
    "compare --no-plot": "unknown option '--no-plot' of batchstat compare: did you mean '--no-plot",
    "compare -b 8": "unknown option '-b' of batchstat compare: did you mean '--batch-size'?",
    "check --cheks a": "unknown option '--cheks' of batchstat check: did you mean '--check'?",
    "compare --max_padding 5%": "batchstat compare: it is an option of check and config",
    "compare --tokens-per-batch": "--tokens-per-batch has no value: write --tokens-per-batch N",
    "compare -o": "-o has no value: write -o DIR",
    "compare --json=yes": "--json takes no value: write --json alone",
    "compare --output ''": "--output='': must name a file or folder",
    "compare --strategy ''": "--strategy is empty: give it a value, or remove it",
    "recipe torch train.py x": "unexpected argument 'train.py x': batchstat recipe takes only FRAM",
    # Numbers
    "compare --seed 1.5": "--seed='1.5': must be a whole number",
    "compare --read-ahead many": "--read-ahead='many': must be a whole number",
    "compare --tokens-per-batch 16,384": "must be a whole number: write 16384 or 16_384",
    "compare a.csv --tokens-per-batch 0": "tokens_per_batch=0: must be between 1 and 2,147,483,647",
    "compare a.csv --tokens-per-batch -5": "tokens_per_batch=-5: must be between 1 and 2,147,483,6",
    f"compare a.csv --tokens-per-batch {10**30}": "must be between 1 and",
    "compare a.csv --max-length 0": "max_length=0: must be between 1",
    "compare a.csv --gradient-accumulation-steps 0": "gradient_accumulation_steps=0: must be betwe",
    "compare a.csv --strategy static:batch_size=0": "batch_size=0: must be between 1",
    "compare a.csv --seeds 0": "seeds=0: must be between 1",
    "compare a.csv --model hidden=768": "has no layers",
    "compare a.csv --strategy boundaries:boundaries=9,3": "must be above 0 and strictly rising",
    # Before the corpus is read
    "compare nowhere.txt --seed -1": "seed=-1: must be between 0",
    "compare nowhere.txt --strategy x": "unknown strategy 'x'",
    "buckets nowhere.txt --plot-format jpg": "(known: pdf, png, svg)",
    "compare nowhere.txt --cost-per-hour 2": "needs the time of an epoch: name a calibration",
    "balance nowhere.txt --calibration c.json --cost-per-hour -1": "must be a number above 0",
    "check nowhere.txt --cost-per-hour cheap": "--cost-per-hour='cheap': must be a number",
    "profile nowhere.txt --min-chars -1": "min_chars=-1: must be between 0",
    # Names
    "compare a.csv --strategy pack": "unknown strategy 'pack'",
    "compare a.csv --strategy tokenbudget": "unknown strategy 'tokenbudget': did you mean 'token-b",
    "compare a.csv --strategy farseq": "unknown strategy 'farseq': did you mean 'fairseq'?",
    "compare a.csv --strategy static:batchsize=3": "did you mean 'batch_size'?",
    "compare a.csv --strategy static:buckets=3": "unknown parameter of static 'buckets'",
    "compare --current training_args.bin": "training_args.bin is a pickle",
    "check --current hf-trainr --max-padding 5%": "did you mean 'hf-trainer'?",
    "compare --current hf": "unknown strategy 'hf': did you mean 'hf-trainer'?",
    "check --order fil": "unknown order 'fil': did you mean 'file'? (known: blocks, file, shuffled",
    "compare a.csv --order sorted": "unknown order 'sorted'",
    "compare a.csv --overflow clip": "unknown overflow 'clip'",
    "recipe torhc": "unknown framework 'torhc': did you mean 'torch'?",
    "check --format jsno": "unknown format 'jsno': did you mean 'json'?",
    # Options that need others
    "check a.csv": "there are no limits to check: pass --max-padding 5% or --base, or run batchst",
    "compare --tokenizer builtin": "--tokenizer needs a corpus to count: name one",
    "compare --strip": "--strip needs a corpus to count: name one",
    "compare --min-chars 2": "--min-chars needs a corpus to count: name one",
    "compare a.csv --no-header --text-column text": "name columns by number, from 0",
    "profile a.txt --no-header": "--no-header is for .csv and .tsv files",
    "profile a.txt --quote": "--quote is for .csv and .tsv files",
    "profile a.csv --tokens-column a --length-column b": "mutually exclusive",
    "profile a.csv --text-column a --text-column b --text-column c": "given 3 times",
    "profile a.csv --length-column a --strip": "strip and min_chars are for texts, not with",
    "profile a.csv --length-column a --tokenizer builtin": "but a length_column has none",
    # What a file may be in
    "profile a.csv --on-error ignore": "unknown on_error 'ignore'",
    "profile a.csv --input-format xml": "unknown input_format 'xml'",
    "profile a.txt --encoding latin-99": "no encoding of Python's",
    "profile a.txt --encoding rot13": "no encoding of Python's",
    "profile a.csv --separator '||'": "must be one character, or tab",
    "profile a.csv --separator '\"'": "must be one character, or tab",
    "profile a.csv --records a..b": "must be keys with dots",
    "profile a.csv --records a[1]": "must be keys with dots",
}


def written(folder: Path, files: dict[str, Content]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def earlier_results(folder: Path) -> Path:
    written(folder, {"batchstat-results/profile.json": "earlier"})
    return folder / "batchstat-results"


def error_of(result: "subprocess.CompletedProcess[str]", results: Path, before: set[str]) -> str:
    """The one line beside warnings and progress, which a slow machine shows; what was there before
    is as it was.
    """
    lines = result.stderr.splitlines()
    [line] = [each for each in lines if not each.startswith(("counting: ", "warning: "))]
    assert line.startswith("error: ")
    assert {path.name for path in results.iterdir()} == before
    assert (results / "profile.json").read_text() == "earlier"
    return line


def refused(
    run: Run, folder: Path, typed: str, said: str, error_id: str, files: dict[str, Content]
) -> None:
    """Hold the line that is said of what is typed, and the same in its parts, which JSON has."""
    written(folder, files)
    results = earlier_results(folder)
    before = {path.name for path in results.iterdir()}
    command, *words = shlex.split(typed)
    as_json = {"check": ["--format", "json"], "recipe": []}.get(command, ["--json"])
    result = run(command, *as_json, *words, COLUMNS="40")
    line = error_of(result, results, before)
    assert said in line
    assert "SECRET" not in line
    assert "binary" not in line or "encoding" not in line
    assert result.returncode == (2 if error_id == "option" else 3)
    assert bool(result.stdout) == bool(as_json)
    if as_json:
        document = json.loads(result.stdout)
        if "checks" in document:  # of which each has an error of its own
            [document] = document["checks"]
            document = {"error": document["error"]}
        check_schema(document, "error")
        error = document["error"]
        assert line == f"error: {': '.join(filter(None, (error['message'], error['remedy'])))}"
        assert error["exit_code"] == result.returncode
        assert error["id"].startswith(error_id)


@pytest.mark.parametrize(
    ("name", "content", "flags", "line"), FILES, ids=[f"{row[0]}: {row[3]}" for row in FILES]
)
def test_a_file_that_gives_no_answer(run: Run, tmp_path, name, content, flags, line):
    refused(run, tmp_path, f"profile {name} {flags}", line, "input", {name: content})


@pytest.mark.parametrize(
    ("files", "typed", "line"), INPUTS, ids=[f"{row[1]}: {row[2]}" for row in INPUTS]
)
def test_what_gives_no_answer(run: Run, tmp_path, files, typed, line):
    refused(run, tmp_path, typed, line, "input", files)


@pytest.mark.parametrize("typed", MISSING)
def test_what_is_not_there_has_an_id_of_its_own(run: Run, tmp_path, typed):
    files = {"a.txt": "some words\nmore of them\n", "chats.jsonl": chat()}
    refused(run, tmp_path, typed, "no ", "input/missing", files)


@pytest.mark.parametrize("typed", USAGE)
def test_what_is_wrong_by_itself(run: Run, tmp_path, typed):
    refused(run, tmp_path, typed, USAGE[typed], "option", {"a.csv": GOOD, "a.txt": "a\n"})


@pytest.mark.skipif(os.name == "nt", reason="named pipes")
@pytest.mark.parametrize(
    "typed",
    [
        "profile pipe",
        "profile saved",
        "compare l.npy --calibration pipe",
        "compare l.npy --config pipe",
        "balance a.csv --label-column label --sampler weights=pipe.json",
        "check l.npy --base pipe",
        "recipe -o r",
    ],
)
def test_a_named_pipe_where_a_file_is_read(run: Run, tmp_path, typed):
    """It would be waited for, and a device such as /dev/zero has no end."""
    written(tmp_path, {"l.npy": npy(*range(1, 50)), "a.csv": GOOD, **SAVED})
    assert run("compare", "a.csv", "--no-plots", "-o", "r").returncode == 0
    (tmp_path / "r" / "compare.json").unlink()
    for name in ("pipe", "pipe.json", "r/compare.json", "saved/state.json"):
        os.mkfifo(tmp_path / name)
    result = run(*shlex.split(typed))
    assert result.returncode in (2, 3)
    assert "not a regular file" in result.stderr


@pytest.mark.parametrize("name", ["a" * 300, "a" * 5_000, "a/" * 3_000], ids=len)
@in_turn(
    "typed",
    [
        *(f"compare l.npy --no-plots {f} NAME" for f in ("--html", "--current", "--strategy")),
        *(f"compare l.npy --no-plots {f} NAME" for f in ("--calibration", "-o")),
        *("run -o NAME -- true", "preflight NAME"),
    ],
)
def test_a_name_that_is_too_long(run: Run, tmp_path, name, typed):
    written(tmp_path, {"l.npy": npy(*range(1, 50))})
    result = run(*shlex.split(typed.replace("NAME", name)), cwd=tmp_path)
    assert result.returncode in (2, 3)
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert len(result.stderr) < 2_000


@in_turn("content", ["[]", "[" * 100_000, "3", "{", '{"id": 3}'])
def test_a_folder_whose_recording_is_not_one(run: Run, tmp_path, content):
    written(tmp_path, {"r/run.json": content})
    started = run("run", "-o", "r", "--", "true", cwd=tmp_path)
    assert started.returncode == 3
    assert "holds the recording of another run" in started.stderr
    assert "no recording" in run("measure", "r", cwd=tmp_path).stderr
    assert "is an address" in run("run", "-o", "memory://a/b", "--", "true").stderr


@in_turn(
    ("names", "advised"),
    [
        (
            ("data/train-00000-of-00001", "data/test-00000-of-00001"),
            ("d/data/test*", "d/data/train*"),
        ),
        (("train", "validation"), ("d/train*", "d/validation*")),
        (("train/0", "test/0"), ("d/test", "d/train")),
        (("de_train", "train_2", "dev"), ("d/dev*", "d/train*")),
    ],
)
def test_splits_of_one_data_set_are_not_added_up(run: Run, tmp_path, names, advised):
    written(tmp_path, {f"d/{name}.parquet": P for name in names})
    said = run("profile", "d", cwd=tmp_path).stderr
    assert said == f"error: d has several splits: name one of them: {', '.join(advised)}\n"
    for each in advised:
        assert run("profile", each, "--no-plots", cwd=tmp_path).returncode == 0


@in_turn(
    "names",
    [("a.jsonl", "b.jsonl"), ("test.jsonl", "b.jsonl"), ("training_a.jsonl", "trains.jsonl")],
)
def test_other_names_are_one_corpus(run: Run, tmp_path, names):
    written(tmp_path, {f"d/{name}": A for name in names})
    result = run("profile", "d", "--no-plots", "--json", cwd=tmp_path)
    assert json.loads(result.stdout)["corpus"]["samples"] == len(names)


def test_a_corpus_is_compared_whatever_was_profiled_before(run: Run, tmp_path):
    written(tmp_path, {"a.csv": GOOD, f"{RESULTS}/lengths.parquet": "damaged"})
    assert run("compare", "a.csv", "--no-plots").returncode == 0


def test_the_json_of_a_command_that_trains_is_its_own(run: Run):
    result = run("run", "no.py", "--json")
    assert (result.returncode, result.stdout) == (3, "")


def test_a_result_that_cannot_be_written_is_one_document(run: Run, tmp_path):
    written(tmp_path, {"a.txt": "some words\n"})
    result = run("profile", "a.txt", "--html", "a.txt/page.html", "--no-plots", "--json")
    assert result.returncode == 3
    check_schema(json.loads(result.stdout), "error")


def test_errors_of_a_configuration_as_json(run: Run, tmp_path):
    written(tmp_path, {"batchstat.toml": "batch-size = 0\n"})
    for words in (["--format", "json"], ["--format=json"], ["--format", "json=a.json"]):
        result = run("check", *words)
        assert result.returncode == 2
        assert bool(result.stdout) == (words[-1] != "json=a.json")
        if result.stdout:
            error = json.loads(result.stdout)["error"]
            assert error["message"] == "batchstat.toml: batch_size=0"
            assert error["remedy"].startswith("must be between 1 and ")


def test_names_with_control_characters_are_escaped(run: Run):
    result = run("compare", "--\x1b[31mred")
    assert result.returncode == 2
    assert "\x1b" not in result.stderr
