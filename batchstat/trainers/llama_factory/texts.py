"""LLaMA-Factory's stage: pt, which trains on texts.

Checked against LLaMA-Factory 0.9.5 with transformers 5.6: `PretrainDatasetProcessor` of
src/llamafactory/data/processor/pretrain.py, `AlpacaDatasetConverter` of converter.py,
`fix_special_tokens` of template.py, `DataArguments` of hparams/data_args.py, and `run_pt` of
train/pt/workflow.py, whose collator takes every token that pads for padding.
"""

from dataclasses import replace

from batchstat.errors import InputError
from batchstat.findings import Finding
from batchstat.profiling.counted_by import tokenizer_of, tokens_other_than
from batchstat.profiling.profile import Profile
from batchstat.trainers.base.rules import CorpusRules, TokenizerRules
from batchstat.trainers.base.samples import TrainedSamples
from batchstat.trainers.llama_factory.keys import LlamaFactoryArguments
from batchstat.trainers.llama_factory.samples import choose_rows, read_rows
from batchstat.words import counted, short

_KEEP = ("mistral", "deepseek3", "deepseekr1", "gemma2", "default", "empty", "alpaca", "vicuna")
_ENDS = {
    **dict.fromkeys(_KEEP, None),
    **dict.fromkeys(("chatml", "qwen", "qwen3", "qwen3_nothink", "yi", "phi4"), "<|im_end|>"),
    **dict.fromkeys(("phi", "phi4_mini"), "<|end|>"),
    "gemma": "<end_of_turn>",
    "llama3": "<|eot_id|>",
}
"""Templates that are modelled; for each, the token that it makes the tokenizer's end-of-sequence
token, or None if the tokenizer keeps its own."""
_APPENDED = {"llama3": "<|end_of_text|>"}
"""Templates with which texts end with another token than the end-of-sequence token."""
_UNKNOWN_PADDING = (
    "which of the token ids pad is unknown, which LLaMA-Factory does not train inside texts "
    "either (often the token that ends them): trained tokens include them; pass "
    "--trained-column, or the texts"
)


def check(config: LlamaFactoryArguments) -> None:
    """Raise OptionError for keys that stage: pt refuses, and templates that are not modelled."""
    # These are about prompts and answers, which texts do not have.
    for key in ("neat_packing", "train_on_prompt", "mask_history"):
        if getattr(config, key):
            raise config.error(f"{key} contradicts stage=pt: remove one")
    name = config.template
    if name is not None and name not in _ENDS:
        raise config.error(
            f"template={short(name)} with stage=pt is not modelled, which takes nothing "
            f"but the token of it that ends texts: remove it, or name one of {', '.join(_ENDS)}"
        )


def packs(config: LlamaFactoryArguments) -> bool:
    """Return whether texts are laid end to end; that is the default of stage: pt."""
    return config.packing is not False


def row_length(config: LlamaFactoryArguments) -> int:
    """Return the tokens of a row: cutoff_len, but one less if the file itself sets packing: true.

    DataArguments takes that one off while packing still has the value of the file; its default for
    stage: pt is filled in later.
    """
    return int(config.cutoff_len) - (config.packing is True)


def corpus_of(config: LlamaFactoryArguments) -> CorpusRules:
    """Return how texts are read: each with the token that ends it appended."""
    name = config.template or ""
    added = _ENDS.get(name)
    end = _APPENDED.get(name, added)  # None: the tokenizer's own end-of-sequence token
    return CorpusRules(
        # LLaMA-Factory appends it also to texts that end with it.
        reading={"always_append": True, **({} if end is None else {"append": end})},
        appends_eos=end is None,
        loads=TokenizerRules(added=() if added is None else (added,)),
    )


def prepare(config: LlamaFactoryArguments, profile: Profile, max_length: int) -> TrainedSamples:
    """Return the texts that LLaMA-Factory batches: those that are not held out for evaluation, each
    with the token that ends it.

    Raises:
        InputError: LLaMA-Factory stops at this corpus, no text is left, or its treatment is not
            modelled.
    """
    trained, trained_rows, held_out, unused = choose_rows(profile, read_rows(profile), config)
    if len(trained) == 0:
        raise InputError("no text is left to train on", "raise max_samples, or lower val_size")
    # Rows without a sample: `trained` is without them, and in `held_out` they are -1.
    if len(trained) < len(trained_rows) or (held_out < 0).any():
        raise InputError(
            "the corpus has records that cannot be read, each of which is a text to LLaMA-Factory",
            "remove them there",
        )
    ended = _as_tokenized(profile, config)
    # A last row that is not full is dropped: here that would be the whole evaluation set.
    if len(held_out) and packs(config) and ended.lengths[held_out].sum() < max_length:
        raise InputError(
            f"val_size holds out {counted(len(held_out), 'text')}, which are less than a row of "
            f"{max_length} tokens: LLaMA-Factory stops",
            "raise val_size",
        )
    # Token ids of the user: without labels, padding tokens among them are not known.
    may_pad = profile.corpus.options.content != "text" and profile.trained is None
    return TrainedSamples(
        profile=ended.take(trained),
        dropped={"beyond max_samples": unused} if unused else {},
        held_out=len(held_out),
        warnings=(Finding("trained/pad-inside-texts", _UNKNOWN_PADDING),) if may_pad else (),
    )


def _as_tokenized(profile: Profile, config: LlamaFactoryArguments) -> Profile:
    """Return texts as LLaMA-Factory tokenizes them: their lengths without the tokenizer's special
    tokens, but with the token that ends a text; and which of their tokens are trained.

    Its collator takes every token that equals the padding token for padding, also inside of texts:
    all others are trained.

    Raises:
        InputError: texts that were counted without the token that ends them, or a tokenizer that
            puts a token before each text.
    """
    facts, options = profile.tokenizer, profile.corpus.options
    if options.content in ("tokens", "length"):  # tokenized by the user: taken as they are
        return profile
    if options.content != "text" or facts is None:
        raise InputError("stage=pt trains on texts", "pass --text-column or --tokens-column")
    tokenizer = tokenizer_of(profile)
    name = config.template or ""
    eos_token = _ENDS.get(name) or tokenizer.eos_token  # a template may set another one
    # With some templates, texts end with another token than that. A tokenizer without a padding
    # token pads with its end-of-sequence token.
    appended, pad = _APPENDED.get(name, eos_token), tokenizer.pad_token or eos_token
    if not (appended and options.append == appended and options.always_append):
        raise InputError(
            f"LLaMA-Factory ends each text with {short(appended)}, but this corpus was counted "
            f"with append={short(options.append)}",
            f"count it with append={short(appended)} and always_append",
        )
    if len(tokenizer.encode(appended, add_special_tokens=False)) != 1:
        raise InputError(
            f"tokenizer {facts.name!r} has no token {short(appended)}, with which LLaMA-Factory "
            "ends each text",
            "save the tokenizer with it, or remove template",
        )
    # Packed, the first token of a row is replaced instead, which changes no length.
    if not packs(config) and getattr(tokenizer, "add_bos_token", False):
        raise InputError(
            f"packing=false with tokenizer {facts.name!r}, which begins texts (add_bos_token), is "
            "not modelled",
            "remove packing",
        )
    lengths = profile.lengths - facts.special_tokens_per_sample
    trained = tokens_other_than(profile, pad, lengths, tokenizer)
    # Without kinds, every token is trained: the usual case needs no ranges.
    kinds = {} if (trained.counts() == lengths).all() else {"trained": trained}
    return replace(profile, lengths=lengths, kinds=kinds)
