"""Whether a profile still says the truth about its corpus."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.parts import digest_of
from batchstat.corpus.sources import STANDARD_INPUT, Source
from batchstat.profiling.profile import Profile
from batchstat.storage.addresses import as_path, etag_of, is_remote
from batchstat.tokenization.tokenizer import Tokenizer

_CLOCK_SLACK = timedelta(seconds=2)
"""File systems stamp by a coarser clock than the one that stamped the profile."""


def same_input(
    profile: Profile,
    sources: tuple[Source, ...],
    options: CorpusOptions,
    tokenizer: Tokenizer | None,
) -> bool:
    """Whether building anew could not give another profile.

    Raises:
        OSError: a source that cannot be read.
    """
    corpus, known = profile.corpus, profile.tokenizer
    if corpus.failed or corpus.options != options or (known is None) != (tokenizer is None):
        return False
    if known is not None and tokenizer is not None:
        counts = (tokenizer.name, tokenizer.digest, tokenizer.max_length, tokenizer.library)
        if (known.name, known.digest, known.max_length, known.library) != counts:
            return False
    if STANDARD_INPUT in (source.path for source in sources):
        return False
    # What is listed is compared before any of it is read.
    if _listed(corpus.sources) != _listed(sources):
        return False
    return all(
        kept.digest == (source.digest or digest_of(source))
        for kept, source in zip(corpus.sources, sources, strict=True)
    )


def _listed(sources: Sequence[Source]) -> list[tuple[str, int, str]]:
    return [(source.path, source.bytes, source.format) for source in sources]


def changes(profile: Profile) -> Iterator[str]:
    """A sentence for each source that is no longer what the profile was made from.

    A file of the same size that was last touched before the profile is unchanged; where that does
    not settle it the content's digest does, so that a fresh checkout is not stale.
    """
    created = datetime.fromisoformat(profile.created)
    for source in profile.corpus.sources:
        if source.path == STANDARD_INPUT or not source.digest:  # what is partial was not read
            continue
        try:
            path = as_path(source.path)
            if is_remote(source.path):
                has_etag = source.digest.startswith("etag:")
                if source.digest != (etag_of(path) if has_etag else digest_of(source)):
                    yield f"{source.path} has changed since it was profiled"
                continue
            found = path.stat()
            # On Linux the change time also betrays an older file moved into the place of this one.
            touched = datetime.fromtimestamp(max(found.st_mtime, found.st_ctime), UTC)
            if found.st_size != source.bytes or (
                touched > created - _CLOCK_SLACK and digest_of(source) != source.digest
            ):
                yield f"{source.path} has changed since it was profiled"
        except (OSError, ValueError):  # as of a path with a NUL
            yield f"{source.path} can no longer be read: the profile may not be of it any more"
