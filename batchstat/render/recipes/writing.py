"""Training scripts for a setting, as text: they run as they are, and are meant to be changed."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from batchstat.errors import OptionError
from batchstat.planning.settings import Basis, Settings
from batchstat.planning.strategies.base import Strategy
from batchstat.profiling.profile import Profile
from batchstat.render.recipes import scripts
from batchstat.tokenization.builtin import NAME as BUILTIN

FRAMEWORKS = ("torch", "accelerate", "trainer")

_LOOPS = {
    "torch": scripts.LOADER + scripts.TORCH,
    "accelerate": scripts.LOADER + scripts.ACCELERATE,
    "trainer": scripts.TRAINER,
}
_START = {
    "torch": "torchrun --nproc-per-node {n} train.py",
    "accelerate": "accelerate launch --num-processes {n} train.py",
    "trainer": "torchrun --nproc-per-node {n} train.py",
}


def recipe(
    framework: str,
    profile: Profile,
    lengths: str,
    spec: str,
    strategy: Strategy,
    settings: Settings,
    basis: Basis,
    template: str | None = None,
) -> str:
    """Return a script that trains on the batches that `compare` measures.

    Args:
        framework: one of `FRAMEWORKS`.
        profile: the profile of the corpus.
        lengths: path of its `lengths.parquet`.
        spec: the strategy, as it is written.
        strategy: the parsed strategy.
        settings: the settings, as given.
        basis: the settings, with all defaults decided.
        template: file of a chat template, if the tokenizer's own is not used.

    Raises:
        OptionError: record numbers alone cannot represent the batches.
    """
    refused = refusal(framework, spec, strategy, basis)
    if refused is not None:
        raise OptionError(refused)
    flat = spec.partition(":")[0] in ("packed", "padding-free")
    labelled = profile.labels is not None and profile.labels.offsets is None and not flat
    model = "AutoModelForSequenceClassification" if labelled else "AutoModelForCausalLM"
    loop = _LOOPS[framework].format(
        weight="weight" if labelled else "token_weight",
        # A causal model's loss is a mean over one token fewer per sample.
        about="" if labelled else ", or nearly",
        gradient_accumulation_steps=basis.gradient_accumulation_steps,
    )
    starts = "python train.py" if basis.world_size == 1 else _START[framework]
    kept = profile.labels.names if labelled and profile.labels is not None else ()
    script = scripts.SCRIPT.format(
        lengths=_literal(lengths),
        quoted=_literal(spec),
        ranks=scripts.RANKS.get(framework, scripts.RANKS["torch"]),
        tokenizer=_tokenizer(profile),
        template=_template(profile, template),
        encode=_encode(profile, basis),
        collate=_collate(strategy, flat=flat, classes=kept),
        positions=max(basis.max_length, basis.tokens_per_batch if flat else 0)
        + basis.pad_to_multiple_of,
        labels=f"\n    num_labels={len(kept)}," if labelled else "",
        model=model,
        settings="".join(
            f"\n    {key}={_literal(value)}," for key, value in _changed(settings).items()
        ),
        loop=loop,
    )
    return scripts.HEAD.format(
        spec=spec, start=starts.format(n=basis.world_size), imports=_imports(script), script=script
    )


def holds_text(profile: Profile) -> bool:
    """Return whether a script can read the corpus, which it cannot if it holds lengths or token
    ids.
    """
    counted = any(source.format == "npy" for source in profile.corpus.sources)
    return not counted and profile.corpus.options.content not in ("tokens", "length")


def refusal(framework: str, spec: str, strategy: Strategy, basis: Basis) -> str | None:
    """Return why there is no script for a strategy; None if there is one."""
    why = ""
    unlike = basis.remainder == "uneven" or basis.distribute not in ("batches", "balanced")
    if basis.overflow == "split" or getattr(strategy, "method", "") == "wrapped":
        why = "splits samples, which needs starts and stops"
    elif getattr(strategy, "pad", "") == "edge":
        why = "pads to edges, which needs the width of each batch"
    elif basis.remainder == "dummy":
        why = "with remainder=dummy has empty batches, which need a dummy step"
    elif basis.world_size > 1 and unlike:
        way = f"distribute={basis.distribute}, remainder={basis.remainder}"
        why = f"with {way} may give ranks different numbers of steps"
    elif framework == "trainer" and spec.partition(":")[0] == "grouped":
        why = "has steps with different numbers of batches, which Trainer does not support"
    return f"{spec} {why}: write the script around BatchSampler.batches()" if why else None


def _changed(settings: Settings) -> Mapping[str, Any]:
    """Return the settings that are not at their defaults, except the ranks, which the launcher
    sets.
    """
    defaults = {field.name: field.default for field in fields(Settings)}
    ours = {key: value for key, value in asdict(settings).items() if value != defaults[key]}
    return {key: value for key, value in ours.items() if key not in ("world_size", "epoch")}


_IMPORTED = (
    ("", "os"),
    ("contextlib", "nullcontext"),
    ("pathlib", "Path"),
    None,
    ("", "torch"),
    ("accelerate", "Accelerator"),
    ("tokenizers", "Tokenizer"),
    ("torch.utils.data", "DataLoader"),
    ("transformers", "AutoModelForCausalLM"),
    ("transformers", "AutoModelForSequenceClassification"),
    ("transformers", "AutoTokenizer"),
    ("transformers", "DataCollatorWithFlattening"),
    ("transformers", "GPT2Config"),
    ("transformers", "PreTrainedTokenizerFast"),
    ("transformers", "Trainer"),
    ("transformers", "TrainingArguments"),
    None,
    ("batchstat", "BatchSampler"),
    ("batchstat", "read_samples"),
    ("batchstat.tokenization.builtin", "CHAT_TEMPLATE"),
    ("batchstat.tokenization.builtin", "definition"),
)
"""Names with their modules, in import order: standard library, third party, batchstat."""


def _imports(script: str) -> str:
    """Return the import lines for the names that a script uses."""
    groups: list[dict[str, list[str]]] = [{}]
    for each in _IMPORTED:
        if each is None:
            groups.append({})
        elif re.search(rf"(?<![\w.]){each[1]}\b", script):
            groups[-1].setdefault(each[0], []).append(each[1])
    written = []
    for group in filter(None, groups):
        lines = []
        for module, names in group.items():
            line = f"from {module} import {', '.join(names)}" if module else f"import {names[0]}"
            if len(line) > _MOST_IN_A_LINE:
                line = f"from {module} import (\n" + "".join(f"    {n},\n" for n in names) + ")"
            lines.append(line)
        written.append("\n".join(lines))
    return "\n\n".join(written)


_MOST_IN_A_LINE = 100


def _tokenizer(profile: Profile) -> str:
    name = BUILTIN if profile.tokenizer is None else profile.tokenizer.name
    if name == BUILTIN:
        given = "tokenizer_object=Tokenizer.from_str(definition())"
        return f"PreTrainedTokenizerFast({given})"
    if name.endswith(".json"):
        return f"PreTrainedTokenizerFast(tokenizer_file={_literal(name)})"
    return f"AutoTokenizer.from_pretrained({_literal(name)})"


def _template(profile: Profile, file: str | None) -> str:
    """Return the chat template, if it does not come with the tokenizer."""
    if profile.corpus.options.content != "messages":
        return ""
    if file is not None:
        read = f'Path({_literal(file)}).read_text(encoding="utf-8")'
        return f"tokenizer.chat_template = {read}\n"
    if profile.tokenizer is not None and profile.tokenizer.name == BUILTIN:
        return "tokenizer.chat_template = CHAT_TEMPLATE\n"
    return ""


def _encode(profile: Profile, basis: Basis) -> str:
    cut = f"truncation=True, max_length={basis.max_length}"
    if profile.corpus.options.content == "messages":
        given = f'sample["messages"], tokenize=True, return_dict=False, {cut}'
        return f"tokenizer.apply_chat_template({given})"
    pair = "*" if len(profile.corpus.options.text_column) == 2 else ""
    return f'tokenizer({pair}sample["text"], {cut}).input_ids'


def _collate(strategy: Strategy, *, flat: bool, classes: tuple[str, ...]) -> str:
    if flat:
        return scripts.FLAT
    width = (
        f'padding="max_length", max_length={strategy.max_length}'
        if hasattr(strategy, "max_length")
        else "padding=True"
    )
    if strategy.pad_to_multiple_of > 1:
        width += f", pad_to_multiple_of={strategy.pad_to_multiple_of}"
    labels = 'inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)'
    head = ""
    if classes:
        numbered = ", ".join(f"{_literal(name)}: {i}" for i, name in enumerate(classes))
        head = f"CLASSES = {{{numbered}}}  # no label is -100, which the loss ignores\n\n\n"
        labels = 'torch.tensor([CLASSES.get(sample["label"], -100) for sample in batch])'
    return f"""{head}def collate(batch):
    encoded = [{{"input_ids": encode(sample)}} for sample in batch]
    inputs = tokenizer.pad(encoded, {width}, return_tensors="pt")
    inputs["labels"] = {labels}
    return inputs"""


def _literal(value: object) -> str:
    """Return a value as a Python literal, text in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return repr(value)
