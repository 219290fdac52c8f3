"""What counts a part, wherever that is: its job, and what it answers."""

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
from batchstat.profiling.cache import JOB_ENDING, PartCounts, PartStore
from batchstat.profiling.counting import Counting
from batchstat.profiling.executors.versions import different_versions, versions
from batchstat.profiling.parquet import SCHEMA
from batchstat.profiling.progress import Amount
from batchstat.storage.addresses import is_remote, one_line
from batchstat.tokenization.piece_counter import PieceError
from batchstat.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class Job:
    """How the parts of a run are counted.

    Attributes:
        options: how they are read.
        tokenizer: what counts them; None where they are counted already.
        store: where counts are kept.
        anew: whether a part is counted though its counts are kept already.
        threads: that count in each part.
        by_pieces: whether texts may be counted by their pieces; else everything is counted again,
            whole.
        versions: of the libraries where the run began.
        shared: what is there only where memory is shared.
    """

    options: CorpusOptions
    tokenizer: Tokenizer | None
    store: PartStore
    anew: bool
    threads: int
    by_pieces: bool = True
    versions: dict[str, str] = field(default_factory=versions)
    shared: "Shared | None" = None


@dataclass(frozen=True)
class Shared:
    """What the parts of a run share in one process.

    Attributes:
        pool: of the threads that count.
        on_progress: told of each part how far it has come.
        stop: set where nobody waits for the run any more.
        standard_input: for a part that is it.
    """

    pool: ThreadPoolExecutor
    on_progress: Callable[[Part, Amount], object]
    stop: threading.Event
    standard_input: Rereadable | None


@dataclass(frozen=True)
class PartDone:
    """A part that is counted.

    Attributes:
        key: under which its counts are kept.
        content: what of its bytes the key depends on: see `key_of`.
        samples: in it.
        tokens: in them.
        was_kept: whether an earlier run counted it.
        seconds: it took.
        worker: who counted it: a machine and a process.
        difference: what was found wrong with counting by pieces, by whoever counted it.
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
class SentJob:
    """A job as other processes have it: from the store, where it lies once for all of them.

    Its digest comes with the part, so that nothing is loaded which somebody else put there.
    """

    store: PartStore
    digest: str
    name: str

    @classmethod
    def send(cls, job: Job) -> "SentJob":
        """Puts a job into its store. Raises OSError."""
        content = pickle.dumps(replace(job, shared=None))
        digest = hashlib.sha256(content).hexdigest()
        sent = cls(job.store, digest, f"{digest[:16]}-{secrets.token_hex(4)}{JOB_ENDING}")
        job.store.write(sent.name, content)
        return sent

    def end(self) -> None:
        """Removes it."""
        try:
            (self.store.folder / self.name).unlink(missing_ok=True)
        except OSError:
            return


@lru_cache(maxsize=2)
def _received(sent: SentJob) -> Job:
    try:
        content = (sent.store.folder / sent.name).read_bytes()
    except Exception as error:  # whatever a file system of an address raises
        raise SourceError(
            f"what is to be counted is not in {sent.store.address} for {_here()}: "
            f"{one_line(error)}: name a folder with --parts that every worker can reach"
        ) from None
    if hashlib.sha256(content).hexdigest() != sent.digest:
        raise InputError(f"{sent.store.address}: the job {sent.name} is damaged: run again")
    job: Job = pickle.loads(content)  # noqa: S301 - it is what the run sent
    return job


def count_part(given: Job | SentJob, part: Part) -> PartDone:
    """Counts a part and keeps its counts, unless they are kept already.

    Raises:
        InputError: it cannot be read as it is told, or this machine has other versions than the
            run began with.
        SourceError: it cannot be read now, or the store cannot be written.
        FullError: the store has no room.
    """
    began = time.monotonic()
    job = given if isinstance(given, Job) else _received(given)
    if other := different_versions(job.versions):
        raise InputError(f"{_here()} was to count with {other}: install the same everywhere")
    is_input = part.source.path == STANDARD_INPUT
    digests: tuple[str, ...] = ()
    # What passes by but once is known only to the run that reads it.
    beside, before = secrets.token_hex() if is_input else "", None
    if not is_input and not part.source.digest:
        before = _state(part)
        digests, beside = content_digests(part)
    content = (*digests, beside)
    key = key_of(part, content, job)
    found = None if job.anew or is_input else _kept(job, key)
    was_kept = found is not None
    if found is None:
        found = _counted(job, part, digests)
        seen = len(found.profile) + sum(found.profile.corpus.skipped.values())
        if not (is_input or part.source.bytes or seen):
            raise part.source.emptiness()
        if before is not None and before != _state(part):
            raise SourceError(f"{part.source.shown} changed while it was read: run again")
        _keep(job, key, found, part)
    return PartDone(
        key=key,
        content=content,
        samples=len(found.profile),
        tokens=int(found.profile.lengths.sum()),
        was_kept=was_kept,
        seconds=time.monotonic() - began,
        worker=_here(),
        difference=found.difference,
    )


def check_answer(answer: object, part: Part, job: Job) -> PartDone:
    """Check what another process says of a part that it counted.

    Raises:
        SourceError: it is not what `count_part` answers, or it is about another part.
    """
    if not isinstance(answer, PartDone):
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


def _keep(job: Job, key: str, found: PartCounts, part: Part) -> None:
    try:
        job.store.put(key, found)
    except OSError as error:
        raise job.store.refusal(f"the counts of {part.shown}", error) from None


def _state(part: Part) -> tuple[int, ...] | None:
    try:
        found = part.location.stat()
    except OSError:
        return None  # which reading it says better
    if is_remote(part.source.path):
        return (found.st_size,)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def key_of(part: Part, content: tuple[str, ...], job: Job) -> str:
    """What the counts of a part depend on, and its path, which messages name: as a digest.

    `content` are digests of its bytes and of what else they are read with, where these are not in
    its source.

    That a bad record ends the reading does not change what is read where there is none.
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


def _kept(job: Job, key: str) -> PartCounts | None:
    found = job.store.get(key)
    if found is not None and job.options.on_error == "fail" and found.profile.corpus.unreadable:
        return None
    return found


def _counted(job: Job, part: Part, digests: tuple[str, ...]) -> PartCounts:
    counting = Counting(job.options, job.threads)
    standard_input = None
    if job.shared is not None:
        shared = job.shared
        standard_input = shared.standard_input if part.source.path == STANDARD_INPUT else None

        def note(amount: Amount) -> None:
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
