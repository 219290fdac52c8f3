import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from unittest.mock import patch

import jsonschema
import pytest
import tokenizers
import typer.main
from hypothesis import HealthCheck, settings

from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.reader import CorpusReader
from batchstat.findings import catalogue
from batchstat.parameters import options_of
from batchstat.planning.epoch import InMemoryEpoch
from batchstat.planning.plan import BatchPlan
from batchstat.planning.strategies.base import NOT_PACKED, Strategy
from batchstat.planning.strategies.registry import STRATEGIES
from batchstat.planning.windows import plan_windows
from batchstat.tokenization.loading import load as loading
from warm_python import WarmPython

# Nothing is timed: how fast the machine is today is no property of the code. Every run draws other
# examples, so that 20 of them, which take a fifth of the time of 100, miss nothing for long.
settings.register_profile(
    "untimed", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

# Tests share the processors already: threads of torch would only wait for each other, and make the
# slowest tests take two to five times as long. Set before torch is imported, here or in a process.
os.environ.setdefault("OMP_NUM_THREADS", "1")

Cli = Callable[..., tuple[int, str, str]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts a process or counts a real corpus takes long; a browser is another matter."""
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if {"run_process", "real_data"} & names:
            item.add_marker("slow")
        if "browser" in names:
            item.add_marker("browser")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A name for bytes: their content may hold a time, and every process must find equal names."""
    return argname if isinstance(val, bytes) else None


Run = Callable[..., "subprocess.CompletedProcess[str]"]

ROOT = Path(__file__).parent.parent
SAMPLE_DATA = ROOT / "sample_data"


def packed(spec: str) -> str:
    """The same strategy with its packing, which trainers do not have unless it is asked for."""
    name, _, rest = spec.partition(":")
    kind = STRATEGIES.get(name)
    if kind is None or not kind.packed_by or f"{kind.packed_by}=" in rest:
        return spec
    values = [each for each in options_of(kind)[kind.packed_by].values if each != NOT_PACKED]
    switch = f"{kind.packed_by}={values[0] if values else 'true'}"
    return f"{name}:{switch}" + (f",{rest}" if rest else "")


_WHOLE = {"fairseq": ":required_batch_size_multiple=1"}
SPECS = [packed(name + _WHOLE.get(name, "")) for name in STRATEGIES]
"""Every strategy, in such a way that it drops no sample."""


def plan_epoch(strategy: Strategy, visits: InMemoryEpoch, *, seed: int, epoch: int) -> BatchPlan:
    """The plan of a whole epoch of at least one sample."""
    return BatchPlan.concatenate(list(plan_windows(strategy, visits, seed=seed, epoch=epoch)))


# What loads later may read these once and for all.
_OURS = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TERM", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")
for _name in _OURS:
    os.environ.pop(_name, None)
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["BATCHSTAT_CACHE_DIR"] = os.devnull  # nothing is remembered between tests


def environment(**extra: str) -> dict[str, str]:
    """The environment of a user without a network, our own settings or anything counted before."""
    return {**os.environ, "PYTHONIOENCODING": "utf-8", **extra}


@pytest.fixture(scope="module")
def no_text_is_few():
    """The faster ways of counting, also of texts so few that `token_lengths` would use none."""
    from batchstat.tokenization import token_lengths

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(token_lengths, "_FEW_BYTES", -1)
        yield


@pytest.fixture
def run(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a command line in an empty folder, in this process: fast, and nothing but the command.

    Where the process itself is tested, as by a signal or a closed stream, take `run_process`.
    """
    from batchstat.cli.main import run as run_command

    cache = str(tmp_path_factory.mktemp("cache"))

    def start(*arguments: object, cwd: Path = tmp_path, stdin: bytes = b"", **extra: str):
        command = ["batchstat", *map(str, arguments)]
        code: object = 0
        with ExitStack() as stack:
            streams = []
            for name in ("stdin", "stdout", "stderr"):
                file = stack.enter_context(TemporaryFile())
                streams.append(stack.enter_context(TextIOWrapper(file, "utf-8", newline="")))
                stack.enter_context(patch.object(sys, name, streams[-1]))
            streams[0].buffer.write(stdin)
            streams[0].buffer.seek(0)
            stack.enter_context(patch.object(sys, "argv", command))
            stack.enter_context(patch.object(typer.main, "get_command", _command_of))
            given = environment(**{"BATCHSTAT_CACHE_DIR": cache, **extra})
            stack.enter_context(patch.dict(os.environ, given, clear=True))
            stack.enter_context(chdir(cwd))
            try:
                run_command()
            except SystemExit as ended:
                code = ended.code or 0
            out, err = map(_text_of, streams[1:])
        assert isinstance(code, int)
        assert "Traceback" not in err
        check_ids(err)
        return subprocess.CompletedProcess(command, code, out, err)

    return start


_command_of = cache(typer.main.get_command)
"""typer's command of an application, made once: a process makes it anew, which is a quarter of the
time of a small command.
"""


def _text_of(stream: TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read().replace(os.linesep, "\n")


@pytest.fixture
def run_process(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Starts the real command in an empty folder and waits for it."""
    cache = str(tmp_path_factory.mktemp("cache"))

    def start(*arguments: object, cwd: Path = tmp_path, **extra: str):
        ended = subprocess.run(
            [sys.executable, "-m", "batchstat", *map(str, arguments)],
            cwd=cwd,
            env=environment(**{"BATCHSTAT_CACHE_DIR": cache, **extra}),
            capture_output=True,
            encoding="utf-8",
            timeout=300,
        )
        check_ids(ended.stderr)
        return ended

    return start


def check_ids(errors: str) -> None:
    """Every warning that a command prints ends with the id of a finding, whatever provoked it."""
    for line in errors.splitlines():
        if line.startswith("warning: "):
            ended = re.search(r" \[([a-z/-]+)\]$", line)
            assert ended is not None, line
            assert ended[1] in catalogue(), line


@pytest.fixture
def cli(run: Run) -> Cli:
    """As `run`, on a wide terminal: the exit code, and what is printed."""

    def start(*arguments: object) -> tuple[int, str, str]:
        result = run(*arguments, COLUMNS="1000")
        return result.returncode, result.stdout, result.stderr

    return start


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property."""
    return tmp_path_factory.mktemp("folder")


_WITH_TORCH = {"torch", "torchdata", "accelerate", "lightning", "trl", "cases"}
"""What needs torch, by its name: `cases` are trainings of all of these."""


_running: list[pytest.Item] = []
"""The test that is running; none while tests are collected, and in processes that tests start."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    _running[:] = [item]


def needs(name: str) -> Any:
    """A library that a test is skipped without, or fails where BATCHSTAT_TEST_ALL is set. A test
    that needs torch and is not marked fails: nobody would notice that it is skipped everywhere.
    """
    if name.partition(".")[0] in _WITH_TORCH and _running:
        is_marked = _running[0].get_closest_marker("torch") is not None
        assert is_marked, "this test needs torch: mark it with @pytest.mark.torch"
    if os.environ.get("BATCHSTAT_TEST_ALL"):
        return import_module(name)
    return pytest.importorskip(name)


def reader_of(path: Path, options: "CorpusOptions", kind: str | None = None) -> "CorpusReader":
    """What reads a corpus."""
    from batchstat.corpus.files.sources import find_sources
    from batchstat.corpus.files.splits import splits_of
    from batchstat.corpus.reader import CorpusReader

    return CorpusReader(splits_of(find_sources([path], kind), options), options)


def resealed(record: dict[str, Any], **changes: object) -> dict[str, Any]:
    """A sealed record with other values, as if batchstat had written them."""
    from batchstat.storage.sealed_records import seal

    return seal({k: v for k, v in (record | changes).items() if k != "digest"})


def write_jsonl(path: Path, records: list[dict[str, object]]) -> Path:
    """The records, one a line, in a file."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture(scope="session")
def warm_python() -> Iterator[WarmPython]:
    """Runs scripts that need torch, accelerate, Lightning or transformers; see `WarmPython`."""
    for library in ("torch", "accelerate", "lightning", "transformers"):
        needs(library)
    if not hasattr(os, "fork"):
        pytest.skip("processes are forked")
    warm = WarmPython(environment(PYTHONPATH=str(ROOT), CUDA_VISIBLE_DEVICES=""))
    yield warm
    warm.end()


@pytest.fixture(scope="session")
def _loaded_once() -> dict[str, Any]:
    """Tokenizers by their names, for `tokenizers_loaded_once`."""
    return {"from_folder": cache(loading._from_transformers), "builtin": cache(loading._builtin)}


@pytest.fixture
def tokenizers_loaded_once(monkeypatch: pytest.MonkeyPatch, _loaded_once: dict[str, Any]) -> None:
    """Each tokenizer is loaded once for all tests: for those whose folders stay as they are."""
    monkeypatch.setattr(loading, "_from_transformers", _loaded_once["from_folder"])
    monkeypatch.setattr(loading, "_builtin", _loaded_once["builtin"])


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    """What holds records against the schema of a file; the schema itself is checked once."""
    from batchstat.documents.schema import schema

    found = schema(name)
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def check_schema(record: object, name: str) -> None:
    """The JSON of a file, such as `compare`, is as its schema says."""
    _validator(name).validate(record)


def two_words_definition() -> str:
    """A tokenizer.json that knows `some` and `words`, and raises on anything else."""
    model = tokenizers.models.WordLevel({"some": 0, "words": 1})
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    text: str = tokenizer.to_str()
    return text


@pytest.fixture(scope="module")
def two_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "two.json"
    path.write_text(two_words_definition())
    return path


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real corpora and tokenizers that BATCHSTAT_DATA names."""
    folder = os.environ.get("BATCHSTAT_DATA")
    if not folder:
        pytest.skip("BATCHSTAT_DATA names no folder of real corpora")
    path = Path(folder).resolve()
    assert (path / "wikitext-valid.raw").exists(), f"BATCHSTAT_DATA={folder} holds no corpora"
    return path
