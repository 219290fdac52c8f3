"""The task that counts one part, on any worker: its job, and its answer."""

import hashlib
import json
import os
import pickle
import platform
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache

from batchstat._version import __version__
from batchstat.corpus.digests import content_digests
from batchstat.corpus.opening import Rereadable
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.parts import Part
from batchstat.corpus.reader import CorpusReader
from batchstat.corpus.sources import STANDARD_INPUT
from batchstat.errors import InputError, SourceError
from batchstat.profiling.cache import JOB_ENDING, CountCache, PartCounts
from batchstat.profiling.counting import Counting
from batchstat.profiling.executors.versions import different_versions, versions
from batchstat.profiling.parquet import SCHEMA
from batchstat.profiling.progress import CountedAmount
from batchstat.storage.addresses import is_remote, one_line
from batchstat.tokenization.piece_counter import PieceError
from batchstat.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class CountTask:
    """How the parts of a run are counted.

    Attributes:
        options: how they are read.
        tokenizer: tokenizer to count with; None if the corpus needs no counting.
        store: where counts are stored.
        recount: whether to count a part even if its counts are already stored.
        threads: threads that count in each part.
        by_pieces: whether texts may be counted by pieces; otherwise every text is counted as a
            whole.
        versions: versions of the libraries where the run began.
        shared: what is available only within one process.
    """

    options: CorpusOptions
    tokenizer: Tokenizer | None
    store: CountCache
    recount: bool
    threads: int
    by_pieces: bool = True
    versions: dict[str, str] = field(default_factory=versions)
    shared: "LocalContext | None" = None


@dataclass(frozen=True)
class LocalContext:
    """What the parts of a run share within one process.

    Attributes:
        pool: the threads that count.
        on_progress: called with a part and its progress.
        stop: set when nothing waits for the run any more.
        standard_input: standard input, for the part that reads it.
    """

    pool: ThreadPoolExecutor
    on_progress: Callable[[Part, CountedAmount], object]
    stop: threading.Event
    standard_input: Rereadable | None


@dataclass(frozen=True)
class PartResult:
    """Answer for a part that is counted.

    Attributes:
        key: key under which its counts are stored.
        content: the digests of its bytes in the key: see `key_of`.
        samples: number of samples.
        tokens: tokens in them.
        was_kept: whether the counts were cached by an earlier run.
        seconds: time it took.
        worker: machine and process that counted it.
        difference: why its worker found counting by pieces wrong; empty if it did not.
    """

    key: str
    content: tuple[str, ...]
    samples: int
    tokens: int
    was_kept: bool
    seconds: float
    worker: str
    difference: str = ""


@dataclass(frozen=True)
class RemoteTask:
    """A job as other processes receive it: a file in the store, written once for all of them.

    Its digest is sent with each part, so that a job put there by somebody else is not loaded.
    """

    store: CountCache
    digest: str
    name: str

    @classmethod
    def send(cls, job: CountTask) -> "RemoteTask":
        """Write a job to its store. Raise OSError on failure."""
        content = pickle.dumps(replace(job, shared=None))
        digest = hashlib.sha256(content).hexdigest()
        sent = cls(job.store, digest, f"{digest[:16]}-{secrets.token_hex(4)}{JOB_ENDING}")
        job.store.write(sent.name, content)
        return sent

    def end(self) -> None:
        """Delete the job from the store."""
        try:
            (self.store.folder / self.name).unlink(missing_ok=True)
        except OSError:
            return


@lru_cache(maxsize=2)
def _received(sent: RemoteTask) -> CountTask:
    try:
        content = (sent.store.folder / sent.name).read_bytes()
    except Exception as error:  # a remote file system may raise anything
        raise SourceError(
            f"worker {_here()} cannot read the task from {sent.store.address}: "
            f"{one_line(error)}: name a folder with --count-cache that every worker can reach"
        ) from None
    if hashlib.sha256(content).hexdigest() != sent.digest:
        raise InputError(f"{sent.store.address}: the job {sent.name} is damaged: run again")
    job: CountTask = pickle.loads(content)  # noqa: S301 - it is what the run sent
    return job


def count_part(given: CountTask | RemoteTask, part: Part) -> PartResult:
    """Count a part and store its counts, unless they are stored already.

    Raises:
        InputError: the part cannot be read with these options, or this machine has other versions
            than the run began with.
        SourceError: the part cannot be read now, or the store cannot be written.
        StorageFullError: the store has no space.
    """
    began = time.monotonic()
    job = given if isinstance(given, CountTask) else _received(given)
    if other := different_versions(job.versions):
        raise InputError(
            f"worker {_here()} has other versions; the run began with {other}: install the same "
            "versions everywhere"
        )
    is_input = part.source.path == STANDARD_INPUT
    digests: tuple[str, ...] = ()
    # Only the run that reads a stream knows its content.
    beside, before = secrets.token_hex() if is_input else "", None
    if not is_input and not part.source.digest:
        before = _state(part)
        digests, beside = content_digests(part)
    content = (*digests, beside)
    key = key_of(part, content, job)
    found = None if job.recount or is_input else _kept(job, key)
    was_kept = found is not None
    if found is None:
        found = _counted(job, part, digests)
        seen = len(found.profile) + sum(found.profile.corpus.skipped.values())
        if not (is_input or part.source.bytes or seen):
            raise part.source.emptiness()
        if before is not None and before != _state(part):
            raise SourceError(f"{part.source.shown} changed while it was being read: run again")
        _keep(job, key, found, part)
    return PartResult(
        key=key,
        content=content,
        samples=len(found.profile),
        tokens=int(found.profile.lengths.sum()),
        was_kept=was_kept,
        seconds=time.monotonic() - began,
        worker=_here(),
        difference=found.difference,
    )


def check_answer(answer: object, part: Part, job: CountTask) -> PartResult:
    """Check what another process returned for a part that it counted.

    Raises:
        SourceError: it is not an answer of `count_part`, or it is about another part.
    """
    if not isinstance(answer, PartResult):
        raise SourceError(f"{part.shown}: a worker answered {type(answer).__name__}, not counts")
    for name, kind in _ANSWERED.items():
        value = getattr(answer, name, None)
        if type(value) is not kind:
            raise SourceError(f"{part.shown}: a worker answered with {name}={str(value)[:80]!r}")
    if min(answer.samples, answer.tokens) < 0:
        raise SourceError(
            f"{part.shown}: a worker answered with {answer.samples} samples of {answer.tokens} "
            "tokens"
        )
    if not all(isinstance(each, str) for each in answer.content):
        raise SourceError(f"{part.shown}: a worker answered with content that is not text")
    if answer.key != key_of(part, answer.content, job):
        raise SourceError(f"{part.shown}: a worker answered with the counts of another part")
    return answer


_ANSWERED = {
    "key": str,
    "content": tuple,
    "samples": int,
    "tokens": int,
    "was_kept": bool,
    "seconds": float,
    "worker": str,
    "difference": str,
}


def _keep(job: CountTask, key: str, found: PartCounts, part: Part) -> None:
    try:
        job.store.put(key, found)
    except OSError as error:
        raise job.store.refusal(f"the counts of {part.shown}", error) from None


def _state(part: Part) -> tuple[int, ...] | None:
    try:
        found = part.location.stat()
    except OSError:
        return None  # reading it gives the better error message
    if is_remote(part.source.path):
        return (found.st_size,)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def key_of(part: Part, content: tuple[str, ...], job: CountTask) -> str:
    """Return a digest of everything the counts of a part depend on, and of its path.

    The path is included because messages name it. `content` are digests of its bytes and of
    anything else they are read with, as far as these are not in its source.

    Stopping at the first bad record or not does not change the counts of a part without any.
    """
    counts, tokenizer = None, job.tokenizer
    if tokenizer is not None:
        counts = (
            tokenizer.name,
            tokenizer.digest,
            tokenizer.library,
            tokenizer.max_length,
            tokenizer.special_tokens_per_sample,
            tokenizer.special_tokens_per_pair,
        )
    options = replace(job.options, on_error="fail")
    place = (asdict(part.source), part.first, part.stop)
    parts = (SCHEMA, __version__, place, content, asdict(options), counts, job.by_pieces)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _kept(job: CountTask, key: str) -> PartCounts | None:
    found = job.store.get(key)
    if found is not None and job.options.on_error == "fail" and found.profile.corpus.unreadable:
        return None
    return found


def _counted(job: CountTask, part: Part, digests: tuple[str, ...]) -> PartCounts:
    counting = Counting(job.options, job.threads)
    standard_input = None
    if job.shared is not None:
        shared = job.shared
        standard_input = shared.standard_input if part.source.path == STANDARD_INPUT else None

        def note(amount: CountedAmount) -> None:
            if shared.stop.is_set():
                raise InputError("interrupted")
            shared.on_progress(part, amount)

        counting = replace(counting, on_progress=note, pool=shared.pool)

    def counts(tokenizer: Tokenizer | None, difference: str = "") -> PartCounts:
        if standard_input is not None:
            standard_input.rewind()
        reader = CorpusReader([part], job.options, standard_input)
        profile = counting.profile(reader, tokenizer)
        return PartCounts(profile, digests, reader.readings[0].label_seen, difference)

    whole = job.tokenizer and replace(job.tokenizer, pieces=None)
    if not job.by_pieces:
        return counts(whole)
    try:
        return counts(job.tokenizer)
    except PieceError as difference:
        return counts(whole, str(difference))


def _here() -> str:
    return f"{platform.node()}:{os.getpid()}"
