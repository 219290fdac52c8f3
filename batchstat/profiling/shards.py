"""Count a shard of a corpus's splits on its own, and merge shards."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from batchstat._version import __version__
from batchstat.corpus.files.sources import Source
from batchstat.corpus.files.splits import Split, splits_of
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, MissingError, OptionError, arguments_named
from batchstat.parameters import listed
from batchstat.profiling.cache import CountCache
from batchstat.profiling.executors.versions import versions
from batchstat.profiling.merge import CachedSplit, CacheEvictedError, merge_splits
from batchstat.profiling.parquet import check_formats
from batchstat.profiling.profile import Profile, TokenizerFacts
from batchstat.storage.addresses import as_path, check_regular, read_bytes
from batchstat.storage.sealed_records import Time, decoded, fault_of, parse, seal, shown, unseal

SHARD_SCHEMA = "batchstat.shard/3"
SHARD_FILE = "shard.json"
SPLITS_FOLDER = "splits"

# At most nine digits, since int() raises for thousands of them.
_WRITTEN = re.compile(r"(\d{1,9})/(\d{1,9})")
_KEY = re.compile("[0-9a-f]{64}")
_SHOWN = 10
"""Numbers of missing shards that a message lists."""


@dataclass(frozen=True)
class ShardSpec:
    """Which shard of a corpus, of how many: `--shard 3/100` is number 3, of 100."""

    number: int
    of: int

    @classmethod
    def parse(cls, written: str) -> "ShardSpec":
        """Parse `I/N`. Raise OptionError unless 1 ≤ I ≤ N."""
        match = _WRITTEN.fullmatch(written)
        # 0/0 for anything else, which is refused just as 0/5 is.
        number, of = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= number <= of:
            raise OptionError(f"shard={written}", "must be I/N with 1 ≤ I ≤ N, such as 3/100")
        return cls(number, of)

    def takes(self, split: int) -> bool:
        """Return whether a split, numbered from 0, is in it: splits are assigned in rotation."""
        return split % self.of == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def _check_key(name: str, key: str) -> None:
    if not _KEY.fullmatch(key):
        raise ValueError(f"{name} is {shown(key)}: must be a SHA-256 digest")


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A shard that was counted, and the content of shard.json.

    Attributes:
        schema: schema of the file.
        tool: name and version of batchstat.
        created: when reading began, ISO 8601 in UTC.
        shard: which shard it is, from 1.
        shards: of how many.
        sources: all sources of the corpus, as listed.
        options: how the corpus is read.
        tokenizer: tokenizer that counted.
        versions: versions of the libraries that counted.
        shortcuts: whether texts were counted by a faster engine or by pieces where possible.
        counted: key of the counts, and samples, of its splits by their number in the corpus.
        failed: why its other splits could not be counted.
    """

    schema: str = SHARD_SCHEMA
    tool: Mapping[str, str] = field(
        default_factory=lambda: {"name": "batchstat", "version": __version__}
    )
    created: Time
    shard: int
    shards: int
    sources: tuple[Source, ...]
    options: CorpusOptions
    tokenizer: TokenizerFacts | None
    versions: Mapping[str, str] = field(default_factory=versions)
    shortcuts: bool = True
    counted: Mapping[int, tuple[Annotated[str, _check_key], int]]
    failed: Mapping[int, str]

    @property
    def spec(self) -> ShardSpec:
        """Which shard of how many."""
        return ShardSpec.parse(f"{self.shard}/{self.shards}")

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """All splits of the corpus."""
        return splits_of(self.sources, self.options)

    def to_json(self) -> dict[str, Any]:
        """Return shard.json."""
        return seal(asdict(self))


def read_shard(folder: Path) -> Shard:
    """Return the shard in a folder. Raise InputError if it is missing or unreadable."""
    path = folder / SHARD_FILE
    try:
        check_regular(path)
        shard: Shard = decoded(Shard, unseal(parse(read_bytes(path)), SHARD_SCHEMA))
        check_formats(shard.sources)
        own_splits = {i for i in range(len(shard.splits)) if shard.spec.takes(i)}
        if not own_splits >= shard.counted.keys() | shard.failed.keys():
            raise ValueError("it lists splits of other shards")
        return shard
    # NotADirectoryError: the folder is a file.
    except (FileNotFoundError, NotADirectoryError):
        raise MissingError(
            f"no {SHARD_FILE} in {folder.as_posix()}",
            "name the folders that batchstat profile --shard I/N -o FOLDER wrote",
        ) from None
    except (OSError, ValueError) as error:
        fault = fault_of(error, "a shard")
        raise InputError(f"{path.as_posix()} {fault}", "count that shard again") from None


@arguments_named()
def merge(folders: Sequence[str | Path], *, allow_partial: bool = False) -> Profile:
    """Merge the shards of a corpus, in any order, into its profile.

    Args:
        folders: paths or addresses of the shards' folders.
        allow_partial: whether splits that no shard has may be missing.

    Example:
        >>> batchstat.merge(["shard-1", "shard-2"])  # doctest: +SKIP
        Profile(corpus.txt, builtin, 900 samples, 93,742 tokens, mean 104.2, longest 590)

    Raises:
        OptionError: no folders.
        InputError: shards of different corpora, settings or tokenizers; splits in no shard.
    """
    # A folder that is named twice counts once.
    folder_paths = dict.fromkeys(map(as_path, listed("folders", folders)))
    if not folder_paths:
        raise OptionError("folders is empty", "name the shards' folders")
    shards = [(folder, read_shard(folder)) for folder in folder_paths]
    # All shards must agree with the first one.
    first_folder, first = shards[0]
    for folder, shard in shards[1:]:
        if difference := _difference(first, shard):
            raise InputError(
                f"{folder.as_posix()} and {first_folder.as_posix()} cannot be merged: {difference}"
            )
    counted: dict[int, CachedSplit] = {}
    failed: dict[int, str] = {}
    for folder, shard in shards:
        cache = CountCache(str(as_path(folder) / SPLITS_FOLDER))
        for i, (key, samples) in shard.counted.items():
            # A shard may be counted twice, into two folders: each has the counts of its splits.
            so_far = counted.get(i, CachedSplit((), key, samples))
            if (so_far.key, so_far.samples) != (key, samples):
                raise InputError(
                    f"{first.splits[i].shown} changed between {folder.as_posix()} and another "
                    "shard: recount it"
                )
            counted[i] = so_far._replace(caches=(*so_far.caches, cache))
        failed |= shard.failed
    splits = first.splits  # of the whole corpus
    # A split that failed in one folder may be counted in another one.
    failed = {i: reason for i, reason in failed.items() if i not in counted}
    missing = [i for i in range(len(splits)) if i not in counted and i not in failed]
    failed |= {i: f"{splits[i].shown} is in no shard" for i in missing}
    if failed and not allow_partial:
        raise InputError(_incomplete(failed, missing, first.shards, len(splits)))
    created = min((shard.created for _, shard in shards), key=datetime.fromisoformat)
    try:
        return merge_splits(splits, counted, failed, first.options, created)
    except CacheEvictedError as evicted:
        number = evicted.number
        raise InputError(
            f"the counts of {splits[number].shown} in {counted[number].caches[-1].address} are "
            f"missing or damaged: recount shard {number % first.shards + 1}/{first.shards}"
        ) from None


def _difference(one: Shard, other: Shard) -> str:
    """Return why two shards are not of one corpus, counted in one way; empty if they are."""
    if one.shards != other.shards:
        return f"one is of {one.shards} shards, the other of {other.shards}"
    if one.sources != other.sources:
        differing = set(one.sources) ^ set(other.sources)  # those that only one shard has
        # No source is in one alone: they differ in their order.
        example = min((source.path for source in differing), default="their order")
        return f"the corpus was not the same ({example}): recount them"
    if one.versions != other.versions:
        names = [n for n in one.versions if one.versions[n] != other.versions.get(n)]
        return f"they were counted with different versions of {', '.join(names)}"
    # A shard that found a shortcut wrong counted its splits without; the others did not.
    if one.shortcuts != other.shortcuts:
        return "a shortcut of counting was wrong in one of them: count the corpus without shards"
    if one.options != other.options:
        return "they were read with different options"
    if one.tokenizer != other.tokenizer:
        return "they were counted by different tokenizers"
    return ""


def _incomplete(failed: dict[int, str], missing: list[int], shards: int, splits: int) -> str:
    """Return the message for splits without counts, which names the shards to count.

    Args:
        failed: why splits have no counts, by their numbers; those in no shard, too.
        missing: numbers of the splits in no shard.
        shards: number of shards.
        splits: number of splits.
    """
    if missing:
        # Splits are assigned in rotation: see `ShardSpec.takes`.
        numbers = sorted({i % shards + 1 for i in missing})
        first_few = ", ".join(map(str, numbers[:_SHOWN])) + (", …" if len(numbers) > _SHOWN else "")
        return (
            f"{len(missing):,} of {splits:,} splits are in none of the shards: count shard "
            f"{first_few} of {shards} and name its folder here too; or pass --allow-partial"
        )
    return (
        f"{len(failed):,} of {splits:,} splits failed: {failed[min(failed)]}: recount their "
        "shards, or pass --allow-partial"
    )
