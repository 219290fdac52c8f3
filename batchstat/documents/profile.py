"""profile.json."""

from typing import Any

from batchstat.documents.base import Document, File
from batchstat.documents.corpus import Corpus, corpus_of
from batchstat.lengths.max_length import Truncation
from batchstat.lengths.stats import PERCENTILES, Histogram, LengthStats
from batchstat.parameters import described
from batchstat.profiling.profile import ClassCount, Profile, TokenizerFacts
from batchstat.records import Amount, AtLeastOne, Count, Positive, Ratio, told

_NOT_EXCEEDED = "The smallest observed length that at least {} of the samples do not exceed."


@described("Statistics of the lengths of all samples, in tokens.")
class Lengths(Document):
    count: Positive = told("How many samples.")
    sum: Count = told("All tokens.")
    min: Count = told("The shortest.")
    max: Count = told("The longest.")
    mean: Amount
    std: Amount = told("Standard deviation of the population.")
    p50: Count = told(_NOT_EXCEEDED.format("half"))
    p90: Count = told(_NOT_EXCEEDED.format("90 %"))
    p95: Count = told(_NOT_EXCEEDED.format("95 %"))
    p99: Count = told(_NOT_EXCEEDED.format("99 %"))
    p99_9: Count = told(_NOT_EXCEEDED.format("99.9 %"))
    histogram: Histogram


@described("The tokens that carry loss.")
class Trained(Document):
    tokens: Count = told("Trained tokens of all samples.", of="trained_tokens")
    share: Ratio = told("Trained tokens / all tokens.")
    untrained_samples: Count = told("Samples without a trained token.")


@described("What profile.json says of a corpus.")
class OfCorpus(Document):
    corpus: Corpus
    tokenizer: TokenizerFacts | None = told(
        "The tokenizer that counted; null where the corpus was counted already."
    )
    lengths: Lengths
    trained: Trained | None = told("The trained tokens; null where they are unknown.")
    truncation: list[Truncation] = told("What each candidate for a max_length would truncate.")
    suggested_max_length: Positive | None = told(
        "The smallest candidate that truncates at most 1 % of the samples and, samples far longer "
        "than all others apart, loses at most 0.5 % of the tokens; null if none does, as the "
        "tokenizer's maximum is too small."
    )
    classes: list[ClassCount]
    class_ratio: AtLeastOne | None = told(
        "Samples of the largest class / samples of the smallest; null without classes."
    )


@described("Lengths and classes of a corpus, in tokens. Keys may be added within this schema.")
class ProfileFile(OfCorpus, File, number="batchstat.profile/2"):
    pass


def profile_document(profile: Profile) -> dict[str, Any]:
    """Return profile.json."""
    return ProfileFile.written(profile.created, of_corpus(profile))


def of_corpus(profile: Profile) -> dict[str, Any]:
    """Return the keys that profile.json and check.json share, on the corpus."""
    stats = profile.stats
    trained = None  # stays null where the trained tokens are not known
    if profile.trained_tokens is not None:
        share = profile.trained_tokens / max(stats.sum, 1)  # all samples may be empty
        trained = Trained.of({"share": share}, profile)
    lengths = percentiles(stats) | {"histogram": profile.histogram}
    return OfCorpus.of(
        {
            "corpus": corpus_of(profile.corpus, len(profile)),
            "lengths": Lengths.of(lengths, stats),
            "trained": trained,
        },
        profile,
    )


def percentiles(stats: LengthStats) -> dict[str, int]:
    """Return percentiles by their keys, such as `p50` for 500 thousandths and `p99_9` for 999."""
    return {f"p{each / 10:g}".replace(".", "_"): stats.percentile(each) for each in PERCENTILES}
