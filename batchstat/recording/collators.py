"""What a collator of transformers or TRL does to rows of token ids, as its attributes tell."""

from dataclasses import dataclass
from typing import Any, Literal

from batchstat.recording.recorder.trainers import is_library

Labels = Literal["column", "column or ids", "ids but padding", "random"]
"""Where the labels of tokens come from: see `Collating.labels`."""


@dataclass(frozen=True, kw_only=True)
class Collating:
    """What a collator does."""

    pads: bool = True
    width: int | None = None  # tokens to which every row is padded
    multiple: int = 1
    labels: Labels = "column"
    pad_token_id: int | None = None  # the id it pads with; None if it does not say
    reads_mask: bool = True
    end_to_end: bool = False
    is_left: bool = False


# The collators of transformers that pad as their `padding` and `max_length` say.
_PADDING = (
    "DataCollatorWithPadding",
    "DataCollatorForSeq2Seq",
    "DataCollatorForTokenClassification",
)


def read_collator(collator: Any) -> Collating | None:
    """Return what a collator does; None if it is the user's own, or its rules are not known here.
    Checked against transformers 5.24 (src/transformers/data/data_collator.py) and TRL 1.16
    (`DataCollatorForLanguageModeling` in trl/trainer/sft_trainer.py).
    """
    # default_data_collator is a function, which has a name; the others are objects of a class.
    kind = collator if callable(collator) and hasattr(collator, "__name__") else type(collator)
    name, module = kind.__name__, kind.__module__
    if not is_library(module):
        return None
    if name in ("default_data_collator", "DefaultDataCollator"):
        return Collating(pads=False)
    multiple = getattr(collator, "pad_to_multiple_of", None) or 1
    if name == "DataCollatorForLanguageModeling" and module.startswith("trl."):
        # TRL before 1.0 makes labels of completion masks, by rules that are not modelled.
        if hasattr(collator, "completion_only_loss"):
            return None
        return Collating(
            multiple=multiple,
            labels="column or ids",
            pad_token_id=collator.pad_token_id,
            reads_mask=False,  # it makes a mask of its own, in which all stored tokens are real
            end_to_end=collator.padding_free,
        )
    tokenizer = getattr(collator, "tokenizer", None)
    pad = getattr(tokenizer, "pad_token_id", None)
    is_left = getattr(tokenizer, "padding_side", "right") == "left"
    if name == "DataCollatorForLanguageModeling":
        labels: Labels = "random" if collator.mlm else "ids but padding"
        return Collating(multiple=multiple, labels=labels, pad_token_id=pad, is_left=is_left)
    if name in _PADDING:
        # True, False, a name, or a PaddingStrategy of transformers, whose value is such a name.
        padding = str(getattr(collator.padding, "value", collator.padding))
        return Collating(
            pads=padding in ("True", "longest", "max_length"),
            width=collator.max_length if padding == "max_length" else None,
            multiple=multiple,
            pad_token_id=pad,
            is_left=is_left,
        )
    return None
