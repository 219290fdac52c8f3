"""Check whether a profile is still up to date with its corpus."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from batchstat.corpus.files.digests import digest_of
from batchstat.corpus.files.sources import Source
from batchstat.hidden_secrets import is_shortened
from batchstat.profiling.inputs import Corpus
from batchstat.profiling.profile import Profile, TokenizerFacts
from batchstat.storage.addresses import as_path, etag_in, info_of
from batchstat.storage.shown import full_address, is_remote

_CLOCK_SLACK = timedelta(seconds=2)
"""File systems may stamp with a coarser clock than the one that stamped the profile."""


def same_input(profile: Profile, corpus: Corpus) -> bool:
    """Return whether counting would certainly give the same profile. Raises OSError."""
    facts = profile.corpus
    # Splits that failed may be readable now, and standard input is never the same.
    if facts.failed or facts.options != corpus.options or corpus.reads_standard_input:
        return False
    if profile.tokenizer != TokenizerFacts.of(corpus.tokenizer, corpus.options):
        return False
    # The listing is compared before any file is read.
    if _listing(facts.sources) != _listing(corpus.sources):
        return False
    return all(
        counted.digest == (source.digest or digest_of(source))
        for counted, source in zip(facts.sources, corpus.sources, strict=True)
    )


def _listing(sources: Sequence[Source]) -> list[tuple[str, int, str]]:
    return [(source.path, source.bytes, source.format) for source in sources]


def changes(profile: Profile) -> Iterator[str]:
    """Yield a sentence for each source that has changed since the profile: by its size, and if it
    was modified later, as by a fresh checkout, by the digest of its content.
    """
    created = datetime.fromisoformat(profile.created)
    for source in profile.corpus.sources:
        # A source of which splits failed has no digest. The samples of a recording are in no file.
        is_file = bool(source.digest) and profile.corpus.indexed == "corpus"
        if source.is_standard_input or not is_file:
            continue
        # A profile stores an address without the secrets in it, and cannot open it without them.
        if is_shortened(full_address(source.path)):
            yield f"{source.path} cannot be checked for changes, as its address is not stored whole"
            continue
        try:
            if _has_changed(source, created):
                yield f"{source.path} has changed since it was profiled"
        except (OSError, ValueError):  # ValueError: a path with a NUL
            yield f"{source.path} can no longer be read: the profile may be out of date"


def _has_changed(source: Source, created: datetime) -> bool:
    """Return whether a source has changed since a profile was created. Raises OSError."""
    path = as_path(source.path)
    if is_remote(source.path):
        # An ETag changes with the content, and saves reading the file over the network.
        if source.etag:
            return etag_in(info_of(path)) != source.etag
        return digest_of(source) != source.digest
    status = path.stat()
    if status.st_size != source.bytes:
        return True
    # On Linux the change time also reveals an older file that was moved here.
    touched = datetime.fromtimestamp(max(status.st_mtime, status.st_ctime), UTC)
    return touched > created - _CLOCK_SLACK and digest_of(source) != source.digest
