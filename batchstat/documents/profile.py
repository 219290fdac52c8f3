"""profile.json."""

from typing import Any

from batchstat.documents.base import (
    Amount,
    AtLeastOne,
    Count,
    Document,
    File,
    Positive,
    Ratio,
    head,
)
from batchstat.documents.corpus import Corpus, Histogram, Tokenizer, corpus_of
from batchstat.lengths.stats import PERCENTILES, LengthStats
from batchstat.parameters import described
from batchstat.profiling.profile import Profile

SCHEMA = "batchstat.profile/1"


@described("Statistics of the lengths of all samples, in tokens.")
class Lengths(Document):
    count: Positive
    """How many samples."""
    sum: Count
    """All tokens."""
    min: Count
    """The shortest."""
    max: Count
    """The longest."""
    mean: Amount
    std: Amount
    """Standard deviation of the population."""
    p50: Count
    """The smallest observed length that at least half of the samples do not exceed."""
    p90: Count
    """The smallest observed length that at least 90 % of the samples do not exceed."""
    p95: Count
    """The smallest observed length that at least 95 % of the samples do not exceed."""
    p99: Count
    """The smallest observed length that at least 99 % of the samples do not exceed."""
    p99_9: Count
    """The smallest observed length that at least 99.9 % of the samples do not exceed."""
    histogram: Histogram


@described("What one max_length would truncate.")
class Truncation(Document):
    max_length: Count
    samples: Count
    """Samples that it would truncate."""
    tokens: Count
    """Tokens that would be lost."""
    trained_tokens: Count | None
    """Trained tokens that would be lost; null where they are unknown."""
    untrained_samples: Count | None
    """Samples that would have no trained token; null where these are unknown."""


@described("The tokens that carry loss.")
class Trained(Document):
    tokens: Count
    """Trained tokens of all samples."""
    share: Ratio
    """Trained tokens / all tokens."""
    untrained_samples: Count
    """Samples without a trained token."""


@described("One class.")
class ClassCount(Document):
    label: str | None
    """The class; null for samples without one."""
    count: Positive
    """How many samples it has."""
    share: Ratio
    """count / all samples."""
    mean_length: Amount
    """Tokens per sample of the class."""


@described("What profile.json says of a corpus.")
class OfCorpus(Document):
    corpus: Corpus
    tokenizer: Tokenizer | None
    """The tokenizer that counted; null where the corpus was counted already."""
    lengths: Lengths
    trained: Trained | None
    """The trained tokens; null where they are unknown."""
    truncation: list[Truncation]
    """What each candidate for a max_length would truncate."""
    suggested_max_length: Positive
    """The smallest candidate that truncates at most 1 % of the samples and loses at most 0.5 % of
    the tokens; the tokenizer's maximum if none does."""
    classes: list[ClassCount]
    class_ratio: AtLeastOne | None
    """Samples of the largest class / samples of the smallest; null without classes."""


@described("Lengths and classes of a corpus, in tokens. Keys may be added within this schema.")
class ProfileFile(OfCorpus, File):
    pass


def profile_document(profile: Profile) -> dict[str, Any]:
    """Return profile.json."""
    return {**head(SCHEMA, profile.created), **of_corpus(profile).to_json()}


def of_corpus(profile: Profile) -> OfCorpus:
    """Return what profile.json says of a corpus, which check.json says too."""
    lengths = percentiles(profile.stats) | {"histogram": profile.histogram}
    return OfCorpus.of(
        {
            "corpus": corpus_of(profile.corpus, len(profile)),
            "lengths": Lengths.of(lengths, profile.stats),
            "trained": _trained(profile),
        },
        profile,
    )


def _trained(profile: Profile) -> Trained | None:
    tokens, untrained = profile.trained_tokens, profile.untrained_samples
    if tokens is None:
        return None
    share = tokens / max(profile.stats.sum, 1)
    return Trained.of({"tokens": tokens, "share": share, "untrained_samples": untrained})


def percentiles(stats: LengthStats) -> dict[str, int]:
    """Return percentiles by their keys: `p50`, `p99_9`."""
    named = {each: f"{each / 10:g}".replace(".", "_") for each in PERCENTILES}
    return {f"p{name}": stats.percentile(each) for each, name in named.items()}
