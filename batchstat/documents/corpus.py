"""Which corpus was read, how, and what counted it."""

from typing import Annotated

from pydantic import ConfigDict, Field

from batchstat.corpus.sources import FORMATS
from batchstat.documents.base import Count, Document, Positive, one_of
from batchstat.parameters import described
from batchstat.profiling.profile import CorpusFacts


@described("A file of the corpus.")
class Source(Document):
    path: str
    """As given, with /; an address with … for its user, query and fragment."""
    bytes: Count
    """Size of the file on disk."""
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64}|etag:.+|)$")]
    """SHA-256 of the file's bytes; above 64 MiB, that of the SHA-256s of every 64 MiB; at an
    address its ETag, where there is one, and a digest of the address under a key of the machine
    where not all of it is shown; empty where splits of the file are not counted."""
    format: one_of(FORMATS)  # type: ignore[valid-type]
    """How the file was read."""


@described("Records that are not samples, by reason.")
class Skipped(Document):
    model_config = ConfigDict(extra="forbid")

    blank: Count = 0
    """Nothing but whitespace."""
    short: Count = 0
    """Fewer than min_chars characters."""
    not_utf8: Count = 0
    """Bytes that are not UTF-8."""
    too_long: Count = 0
    """A text of more than 16 MiB, or a record of more than 128 MiB as written."""
    malformed: Count = 0
    """Not of its format."""
    wrong_fields: Count = 0
    """Too few or too many fields."""
    missing_column: Count = 0
    """Without a column that is read."""
    wrong_type: Count = 0
    """A column of another type."""
    chat: Count = 0
    """A chat that cannot be read as one."""
    trained: Count = 0
    """Trained tokens that do not fit the sample's length."""
    not_counted: Count = 0
    """The tokenizer or the chat template raised."""


@described(
    """Chats of which the chat template leaves something out, by what that is; it is not counted."""
)
class LeftOut(Document):
    model_config = ConfigDict(extra="forbid")

    system_messages: Count = 0
    """Messages of the role system."""
    developer_messages: Count = 0
    """Messages of the role developer."""
    user_messages: Count = 0
    """Messages of the role user."""
    assistant_messages: Count = 0
    """Messages of the role assistant."""
    tool_messages: Count = 0
    """Messages of the role tool."""
    function_messages: Count = 0
    """Messages of the role function."""
    ipython_messages: Count = 0
    """Messages of the role ipython."""
    other_messages: Count = 0
    """Messages of another role, such as human and gpt under chat_format."""
    reasoning: Count = 0
    """The reasoning that precedes an answer."""
    tool_calls: Count = 0
    """Calls of tools in messages."""
    function_call: Count = 0
    """Calls of a function in messages, in the older form."""
    tools: Count = 0
    """Tools that a chat may call, also where they are no objects."""


@described("How the corpus was read.")
class ReadingOptions(Document):
    input_format: str | None
    text_column: list[str]
    prompt_column: str | None
    completion_column: str | None
    messages_column: str | None
    tokens_column: str | None
    length_column: str | None
    label_column: str | None
    trained_column: str | None
    assistant_only_loss: bool
    turn_ends: list[str]
    chat_format: str | None
    tokenize_apart: bool
    header: bool
    quote: bool | None
    strip: bool
    min_chars: Count
    append: str
    """What was appended to each text that did not end with it."""
    always_append: bool
    """Whether it was appended to those that did, too."""
    on_error: one_of(("fail", "skip"))  # type: ignore[valid-type]


@described("Which corpus was read, and how.")
class Corpus(Document):
    sources: list[Source]
    """The files, in the order in which they were read."""
    samples: Positive
    """Samples that were counted."""
    skipped: Skipped
    unreadable: Count
    """Bad records that were skipped because that was asked for."""
    faults: list[str]
    """What was wrong with the first few bad records."""
    failed: list[str]
    """Why splits of the corpus are not counted: with one, the profile is partial, and check
    refuses it."""
    left_out: LeftOut
    options: ReadingOptions | None
    """How the corpus was read; null where lengths were given."""


@described("The tokenizer that counted.")
class Tokenizer(Document):
    name: str
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    special_tokens_per_sample: Count
    """Special tokens that the tokenizer adds to a single text; counted in every length."""
    max_length: Positive | None
    library: str
    """The library that counted, with its version."""


@described("How many values fall between two edges: four bins per octave.")
class Histogram(Document):
    edges: Annotated[list[Count], Field(min_length=2)]
    """Bin i holds edges[i] <= value < edges[i + 1]."""
    counts: list[Count]
    """How many fall between an edge and the next."""


_NO_CORPUS = {
    "sources": [],
    "skipped": {},
    "unreadable": 0,
    "faults": [],
    "failed": [],
    "left_out": {},
    "options": None,
}


def corpus_of(facts: CorpusFacts | None, samples: int) -> Corpus:
    """Return which corpus was read; one without sources where lengths were given."""
    return Corpus.of({"samples": samples}, _NO_CORPUS if facts is None else facts)
