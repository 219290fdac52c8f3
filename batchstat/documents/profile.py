"""profile.json: which corpus was read, how, what counted it, and its lengths."""

from typing import Annotated, Any

from batchstat.corpus.files.sources import Source
from batchstat.corpus.options import CorpusOptions
from batchstat.documents.base import Document, File
from batchstat.lengths.max_length import Truncation
from batchstat.lengths.stats import PERCENTILES, Histogram, LengthStats
from batchstat.parameters import described
from batchstat.profiling.profile import (
    INDEXED,
    LABEL_FORMS,
    ClassCount,
    CorpusFacts,
    Profile,
    ReadColumns,
    TokenizerFacts,
)
from batchstat.records import Amount, AtLeastOne, Count, Positive, Ratio, allowed, among, told


@described("Records that are not samples, by reason.")
class Skipped(Document):
    blank: Count = told("Nothing but whitespace.", default=0)
    short: Count = told("Fewer than min_chars characters.", default=0)
    not_utf8: Count = told("Bytes that are not UTF-8.", default=0)
    too_long: Count = told(
        "A text of more than 16 MiB, or a record of more than 128 MiB as written.", default=0
    )
    malformed: Count = told("Not of its format.", default=0)
    wrong_fields: Count = told("Too few or too many fields.", default=0)
    missing_column: Count = told("Without a column that is read.", default=0)
    wrong_type: Count = told("A column of another type.", default=0)
    chat: Count = told("A chat that cannot be read as one.", default=0)
    trained: Count = told("Trained tokens that do not fit the sample's length.", default=0)
    not_counted: Count = told("The tokenizer or the chat template raised.", default=0)


@described(
    """Chats of which the chat template leaves something out, by what that is; it is not counted."""
)
class LeftOut(Document):
    system_messages: Count = told("Messages of the role system.", default=0)
    developer_messages: Count = told("Messages of the role developer.", default=0)
    user_messages: Count = told("Messages of the role user.", default=0)
    assistant_messages: Count = told("Messages of the role assistant.", default=0)
    tool_messages: Count = told("Messages of the role tool.", default=0)
    function_messages: Count = told("Messages of the role function.", default=0)
    ipython_messages: Count = told("Messages of the role ipython.", default=0)
    other_messages: Count = told(
        "Messages of another role, such as human and gpt under chat_format.", default=0
    )
    reasoning: Count = told("The reasoning that precedes an answer.", default=0)
    tool_calls: Count = told("Calls of tools in messages.", default=0)
    function_call: Count = told("Calls of a function in messages, in the older form.", default=0)
    tools: Count = told("Tools that a chat may call, also where they are no objects.", default=0)


_Options = Annotated[CorpusOptions, allowed(description="How the corpus was read.")]


@described("Which corpus was read, and how.")
class Corpus(Document):
    sources: list[Source] = told("The files, in the order in which they were read.")
    samples: Positive = told("Samples that were counted.")
    skipped: Skipped
    unreadable: Count = told("Bad records that were skipped because that was asked for.")
    faults: list[str] = told("What was wrong with the first few bad records.")
    failed: list[str] = told(
        "Why splits of the corpus are not counted: with one, the profile is partial, and check "
        "refuses it."
    )
    left_out: LeftOut
    read: list[ReadColumns] = told("What of the records was read; several if the files differ.")
    label_form: Annotated[str, among(("", *LABEL_FORMS))] = told(
        "How labels were read: one class each, several, lists of 0 and 1 whose positions are the "
        "classes, or columns of 0 and 1; empty without labels."
    )
    indexed: Annotated[str, among(INDEXED)] = told(
        "What record numbers index: the corpus, the data set of a loader or a recorded run, or "
        "nothing, where samples are numbered as they were read."
    )
    options: _Options | None = told("How the corpus was read; null where lengths were given.")


def corpus_of(facts: CorpusFacts | None, samples: int) -> dict[str, Any]:
    """Return which corpus was read; one without sources where lengths were given."""
    if facts is None:
        no_files = CorpusFacts(sources=(), options=CorpusOptions(), skipped={})
        return Corpus.of({"samples": samples, "options": None}, no_files)
    return Corpus.of({"samples": samples}, facts)


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
