"""Count a shard of a corpus's parts on its own, and merge shards."""

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
from batchstat.profiling.cache import CountCache
from batchstat.profiling.executors.versions import versions
from batchstat.profiling.merge import CachedPart, CacheEvictedError, PartResults, of_parts
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
class ShardSpec:
    """Index and number of a shard, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, written: str) -> "ShardSpec":
        """Parse `I/N`. Raise OptionError unless 1 ≤ I ≤ N."""
        found = _WRITTEN.fullmatch(written)
        number, of = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1 <= number <= of:
            raise OptionError(f"shard={written}: must be I/N with 1 ≤ I ≤ N, such as 3/100")
        return cls(number, of)

    def takes(self, part: int) -> bool:
        """Return whether a part, numbered from 0, is in it: parts are assigned in rotation."""
        return part % self.of == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True)
class Shard:
    """A shard that was counted.

    Attributes:
        created: when reading began, ISO 8601 in UTC.
        share: which shard of how many.
        sources: all sources of the corpus, as listed.
        options: how the corpus is read.
        tokenizer: tokenizer that counted.
        kept: key of the counts and number of samples of its parts, by their number in the corpus.
        failed: why its other parts could not be counted.
        by_pieces: whether texts were counted by pieces wherever that is faster.
        versions: versions of the libraries that counted.
    """

    created: str
    share: ShardSpec
    sources: tuple[Source, ...]
    options: CorpusOptions
    tokenizer: TokenizerFacts | None
    kept: dict[int, tuple[str, int]]
    failed: dict[int, str]
    by_pieces: bool = True
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts of the corpus."""
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
    """Declaration of shard.json: see `Shard`."""

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
    """Return the shard in a folder. Raise InputError if it is missing or unreadable."""
    path = folder / SHARD_FILE
    try:
        check_regular(path)
        found: _Written = decoded(_Written, unseal(parse(path.read_bytes()), SHARD_SCHEMA))
        check_formats(found.sources)
        shard = Shard(
            found.created,
            ShardSpec.parse(f"{found.shard}/{found.shards}"),
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
            raise ValueError("it lists parts of other shards")
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
    """Merge the shards of a corpus, in any order, into its profile.

    Raises:
        InputError: shards of different corpora, settings or tokenizers; parts in no shard.
    """
    shards = [(folder, read_shard(folder)) for folder in dict.fromkeys(folders)]
    _, first = shards[0]
    for folder, shard in shards[1:]:
        if other := _difference(first, shard):
            raise InputError(
                f"{folder.as_posix()} and {shards[0][0].as_posix()} cannot be merged: {other}"
            )
    kept: dict[int, CachedPart] = {}
    failed: dict[int, str] = {}
    for folder, shard in shards:
        store = CountCache(_joined(folder))
        for i, (key, samples) in shard.kept.items():
            before = kept.get(i, CachedPart((), key, samples))
            if (before.key, before.samples) != (key, samples):
                raise InputError(
                    f"{first.parts[i].shown} changed between {folder.as_posix()} and another "
                    "shard: recount it"
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
        return of_parts(parts, PartResults(kept, failed), first.options, created)
    except CacheEvictedError as gone:
        number = gone.number
        raise InputError(
            f"the counts of {parts[number].shown} in {kept[number].stores[-1].address} are missing "
            f"or damaged: recount shard {number % first.share.of + 1}/{first.share.of}"
        ) from None


def _joined(folder: Path) -> str:
    return str(as_path(folder) / PARTS_FOLDER)


def _difference(one: Shard, other: Shard) -> str:
    if one.share.of != other.share.of:
        return f"one is of {one.share.of} shards, the other of {other.share.of}"
    if one.sources != other.sources:
        found = set(one.sources) ^ set(other.sources)
        example = min((source.path for source in found), default="their order")
        return f"the corpus was not the same ({example}): recount them"
    if one.versions != other.versions:
        names = [n for n in one.versions if one.versions[n] != other.versions.get(n)]
        return f"they were counted with different versions of {', '.join(names)}"
    if one.by_pieces != other.by_pieces:
        return "counting by pieces was found wrong in one of them: count the corpus without shards"
    if one.options != other.options:
        return "they were read with different options"
    if one.tokenizer != other.tokenizer:
        return "they were counted by different tokenizers"
    return ""


def _incomplete(failed: dict[int, str], missing: list[int], shards: int, parts: int) -> str:
    if missing:
        numbers = sorted({i % shards + 1 for i in missing})
        shown = ", ".join(map(str, numbers[:_SHOWN])) + (", …" if len(numbers) > _SHOWN else "")
        return (
            f"{len(missing):,} of {parts:,} parts are in none of the shards: count shard {shown} "
            f"of {shards} and name its folder here too; or pass --allow-partial"
        )
    return (
        f"{len(failed):,} of {parts:,} parts failed: {failed[min(failed)]}: recount their shards, "
        "or pass --allow-partial"
    )
