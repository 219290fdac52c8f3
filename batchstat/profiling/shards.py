"""A share of a corpus's parts, counted by itself, and shares put together again."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from batchstat._version import __version__
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.parts import Part, parts_of
from batchstat.corpus.sources import Source
from batchstat.errors import InputError, OptionError
from batchstat.profiling.cache import PartStore
from batchstat.profiling.executors.versions import versions
from batchstat.profiling.merge import Counted, GoneError, Kept, of_parts
from batchstat.profiling.parquet import check_formats
from batchstat.profiling.profile import Profile, TokenizerFacts
from batchstat.storage.addresses import as_path, check_regular, one_line
from batchstat.storage.sealed_records import (
    OtherSchemaError,
    Time,
    decoded,
    parse,
    seal,
    shown,
    unseal,
)

SHARD_SCHEMA = "batchstat.shard/2"
SHARD_FILE = "shard.json"
PARTS_FOLDER = "parts"

_WRITTEN = re.compile(r"(\d{1,9})/(\d{1,9})")
_KEY = re.compile("[0-9a-f]{64}")
_SHOWN = 10


@dataclass(frozen=True)
class Share:
    """Which shard of how many, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, written: str) -> "Share":
        """From `I/N`. Raises OptionError: 1 ≤ I ≤ N does not hold."""
        found = _WRITTEN.fullmatch(written)
        number, of = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1 <= number <= of:
            raise OptionError(f"shard={written}: must be I/N with 1 ≤ I ≤ N, such as 3/100")
        return cls(number, of)

    def takes(self, part: int) -> bool:
        """Whether a part, by its number from 0, is in it: they are dealt in turn."""
        return part % self.of == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True)
class Shard:
    """A share that was counted.

    Attributes:
        created: when reading began, ISO 8601 in UTC.
        share: which.
        sources: all of the corpus, as it was listed.
        options: how it is read.
        tokenizer: what counts it.
        kept: of its parts, by their number in the corpus, the key of the counts, and the samples.
        failed: why others could not be counted.
        by_pieces: whether texts were counted by their pieces where that is quicker.
        versions: of the libraries that counted.
    """

    created: str
    share: Share
    sources: tuple[Source, ...]
    options: CorpusOptions
    tokenizer: TokenizerFacts | None
    kept: dict[int, tuple[str, int]]
    failed: dict[int, str]
    by_pieces: bool = True
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def parts(self) -> tuple[Part, ...]:
        """All of the corpus."""
        return parts_of(self.sources, self.options)

    def to_json(self) -> dict[str, Any]:
        """shard.json."""
        written = _Written(
            schema=SHARD_SCHEMA,
            tool={"name": "batchstat", "version": __version__},
            created=self.created,
            shard=self.share.number,
            shards=self.share.of,
            sources=self.sources,
            options=self.options,
            tokenizer=self.tokenizer,
            versions=self.versions,
            by_pieces=self.by_pieces,
            kept=self.kept,
            failed=self.failed,
        )
        return seal(asdict(written))


def _check_key(name: str, key: str) -> None:
    if not _KEY.fullmatch(key):
        raise ValueError(f"{name} is {shown(key)}: must be a SHA-256 digest")


@dataclass(frozen=True, kw_only=True)
class _Written:
    """shard.json as it is declared: see `Shard`."""

    schema: str
    tool: Mapping[str, str]
    created: Time
    shard: int
    shards: int
    sources: tuple[Source, ...]
    options: CorpusOptions
    tokenizer: TokenizerFacts | None
    versions: Mapping[str, str]
    by_pieces: bool
    kept: Mapping[int, tuple[Annotated[str, _check_key], int]]
    failed: Mapping[int, str]


def read_shard(folder: Path) -> Shard:
    """The shard in a folder. Raises InputError: there is none, or none that can be read."""
    path = folder / SHARD_FILE
    try:
        check_regular(path)
        found: _Written = decoded(_Written, unseal(parse(path.read_bytes()), SHARD_SCHEMA))
        check_formats(found.sources)
        shard = Shard(
            found.created,
            Share.parse(f"{found.shard}/{found.shards}"),
            found.sources,
            found.options,
            found.tokenizer,
            dict(found.kept),
            dict(found.failed),
            found.by_pieces,
            dict(found.versions),
        )
        own = [i for i in range(len(shard.parts)) if shard.share.takes(i)]
        if not set(own) >= shard.kept.keys() | shard.failed.keys():
            raise ValueError("it names parts that are not its own")
        return shard
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"no {SHARD_FILE} in {folder.as_posix()}: name the folders that batchstat profile "
            "--shard I/N -o FOLDER wrote"
        ) from None
    except (OSError, ValueError) as error:
        reason = one_line(error)
        what = reason if isinstance(error, OtherSchemaError) else f"is not a shard ({reason})"
        raise InputError(f"{path.as_posix()} {what}: count that shard again") from None


def merge_shards(folders: Sequence[Path], *, allow_partial: bool = False) -> Profile:
    """The profile of a corpus from its shards, in any sequence.

    Raises:
        InputError: shards of unlike corpora, settings or tokenizers; parts that none of them has.
    """
    shards = [(folder, read_shard(folder)) for folder in dict.fromkeys(folders)]
    _, first = shards[0]
    for folder, shard in shards[1:]:
        if other := _difference(first, shard):
            raise InputError(
                f"{folder.as_posix()} and {shards[0][0].as_posix()} do not go together: {other}"
            )
    kept: dict[int, Kept] = {}
    failed: dict[int, str] = {}
    for folder, shard in shards:
        store = PartStore(_joined(folder))
        for i, (key, samples) in shard.kept.items():
            before = kept.get(i, Kept((), key, samples))
            if (before.key, before.samples) != (key, samples):
                raise InputError(
                    f"{first.parts[i].shown} was not the same when {folder.as_posix()} and another "
                    "shard counted it: count it anew"
                )
            kept[i] = before._replace(stores=(*before.stores, store))
        failed |= shard.failed
    parts = first.parts
    failed = {i: why for i, why in failed.items() if i not in kept}
    missing = [i for i in range(len(parts)) if i not in kept and i not in failed]
    failed |= {i: f"{parts[i].shown} is in no shard" for i in missing}
    if failed and not allow_partial:
        raise InputError(_incomplete(failed, missing, first.share.of, len(parts)))
    created = min((shard.created for _, shard in shards), key=datetime.fromisoformat)
    try:
        return of_parts(parts, Counted(kept, failed), first.options, created)
    except GoneError as gone:
        number = gone.number
        raise InputError(
            f"{kept[number].stores[-1].address} has no counts of {parts[number].shown}, or damaged "
            f"ones: count shard {number % first.share.of + 1}/{first.share.of} again"
        ) from None


def _joined(folder: Path) -> str:
    return str(as_path(folder) / PARTS_FOLDER)


def _difference(one: Shard, other: Shard) -> str:
    if one.share.of != other.share.of:
        return f"one is of {one.share.of} shards, the other of {other.share.of}"
    if one.sources != other.sources:
        found = set(one.sources) ^ set(other.sources)
        example = min((source.path for source in found), default="their sequence")
        return f"the corpus was not the same ({example}): count them anew"
    if one.versions != other.versions:
        names = [n for n in one.versions if one.versions[n] != other.versions.get(n)]
        return f"they were counted with other versions of {', '.join(names)}"
    if one.by_pieces != other.by_pieces:
        return "counting by pieces was found wrong in one of them: count the corpus without shards"
    if one.options != other.options:
        return "they were read with other options"
    if one.tokenizer != other.tokenizer:
        return "they were counted by other tokenizers"
    return ""


def _incomplete(failed: dict[int, str], missing: list[int], shards: int, parts: int) -> str:
    if missing:
        numbers = sorted({i % shards + 1 for i in missing})
        shown = ", ".join(map(str, numbers[:_SHOWN])) + (", …" if len(numbers) > _SHOWN else "")
        return (
            f"{len(missing):,} of {parts:,} parts are in none of the shards: count shard {shown} "
            f"of {shards}, and name the folder here too; or pass --allow-partial"
        )
    return (
        f"{len(failed):,} of {parts:,} parts failed: {failed[min(failed)]}: count their shards "
        "again, or pass --allow-partial"
    )
