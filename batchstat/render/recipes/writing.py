"""Training scripts for a setting, as text: they run as they are, and are meant to be changed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from batchstat.documents.comparison import LearningRateHint
from batchstat.errors import OptionError
from batchstat.planning.rules import FROM_ONE_PLAN
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.spec import RowRequest
from batchstat.profiling.inputs import begins_with_chats
from batchstat.profiling.profile import Profile
from batchstat.render.command_lines import non_defaults
from batchstat.shown_addresses import without_secrets
from batchstat.simulation.compare.learning_rate import LINEAR_SOURCE, SQUARE_ROOT_SOURCE
from batchstat.tokenization.builtin import NAME as BUILTIN

if TYPE_CHECKING:
    from jinja2 import Template

FRAMEWORKS = ("torch", "accelerate", "trainer", "lightning")

_LINE_LENGTH = 100
"""Characters of a line of a script."""
_START = {
    "torch": "torchrun --nproc-per-node {n} train.py",
    "accelerate": "accelerate launch --num-processes {n} train.py",
    "trainer": "torchrun --nproc-per-node {n} train.py",
    "lightning": "python train.py",  # Lightning starts the other processes
}
"""The command that starts a script on {n} ranks, by framework."""
_STEPS_OF_ONE_SIZE = {"trainer": "Trainer", "lightning": "Lightning"}
"""Frameworks that compute equally many batches in every step, by their flags."""


@dataclass(frozen=True)
class Origin:
    """The comparison that recommends a strategy.

    Attributes:
        path: its file.
        current: the setup to which it compares.
        hint: how the learning rate may scale from that setup.
    """

    path: str
    current: str
    hint: LearningRateHint


def recipe(
    framework: str,
    profile: Profile,
    lengths: str,
    request: RowRequest,
    settings: Settings,
    template: str | None = None,
    origin: Origin | None = None,
) -> str:
    """Return a training script that uses the batches that `compare` measures.

    Args:
        framework: one of `FRAMEWORKS`.
        profile: the profile of the corpus.
        lengths: path of its `lengths.parquet`.
        request: the strategy, with its settings.
        settings: the settings, as given.
        template: file of a chat template, if the tokenizer's own is not used.
        origin: the comparison that recommends the strategy, if one does.

    Raises:
        OptionError: record numbers alone cannot represent the batches.
    """
    shared_values = _shared_values(framework, lengths, request, settings, origin)
    strategy, basis = request.strategy, request.settings
    # Packed samples stand end to end in one row without padding, which needs another collator.
    is_flat = strategy.packs_rows
    is_trained_in_part = profile.trained is not None
    # With classes the script trains a classifier, else a language model. Only a language model can
    # be trained on packed rows, on a part of the tokens, or where samples have several labels each,
    # which is where labels have offsets.
    labels = None if is_flat or is_trained_in_part else profile.labels
    classes = labels.names if labels is not None and labels.offsets is None else None
    has_classes = classes is not None
    tokenizer = BUILTIN if profile.tokenizer is None else profile.tokenizer.name
    model = f"AutoModelFor{'SequenceClassification' if has_classes else 'CausalLM'}"
    # AutoTokenizer reads folders and names, not one file, nor the built-in tokenizer.
    is_single = tokenizer == BUILTIN or tokenizer.endswith(".json")
    tokenizer_class = "PreTrainedTokenizerFast" if is_single else "AutoTokenizer"
    imported_names = [model, "GPT2Config", tokenizer_class]
    imported_names += ["DataCollatorWithFlattening"] if is_flat else []
    imported_names += ["Trainer", "TrainingArguments"] if framework == "trainer" else []
    is_chat = holds_chats(profile)
    start = "python train.py" if basis.world_size == 1 else _START[framework]
    return _template("train.py.jinja").render(
        **shared_values,
        start=start.format(n=basis.world_size),
        transformers=sorted(imported_names),
        tokenizer=tokenizer,
        builtin=tokenizer == BUILTIN,
        builtin_template=tokenizer == BUILTIN and is_chat and template is None,
        template_file=template if is_chat else None,
        chat=is_chat,
        completion=profile.corpus.options.content == "completion",
        trained=is_trained_in_part,
        # Two text columns: each sample is a pair of texts.
        pair=len(profile.corpus.options.text_column) == 2,
        truncation=f"truncation=True, max_length={basis.max_length}",
        flat=is_flat,
        # The class number of each label; empty for a language model.
        labels={name: i for i, name in enumerate(classes or ())},
        padding=_padding(strategy),
        # The model's positions: a row has at most max_length, a packed one the whole budget, and
        # either may be padded to the next multiple.
        positions=max(basis.max_length, basis.tokens_per_batch if is_flat else 0)
        + basis.pad_to_multiple_of,
        model=model,
        # The attribute of a batch that weights its loss, a mean over samples or over tokens.
        weight="weight" if has_classes else "token_weight",
        world_size=basis.world_size,
        gradient_accumulation_steps=basis.gradient_accumulation_steps,
    )


def snippet(
    framework: str,
    lengths: str,
    request: RowRequest,
    settings: Settings,
    origin: Origin | None = None,
) -> str:
    """Return the lines that make an existing training script use the batches.

    It has a `dataset`, a `collate`, and, by framework, an `accelerator`, a `trainer` or a `model`.

    Args:
        framework: one of `FRAMEWORKS`.
        lengths: path of the `lengths.parquet`.
        request: the strategy, with its settings.
        settings: the settings, as given.
        origin: the comparison that recommends the strategy, if one does.

    Raises:
        OptionError: record numbers alone cannot represent the batches.
    """
    shared_values = _shared_values(framework, lengths, request, settings, origin)
    return _template("snippet.py.jinja").render(**shared_values, flat=request.strategy.packs_rows)


def _shared_values(
    framework: str, lengths: str, request: RowRequest, settings: Settings, origin: Origin | None
) -> dict[str, Any]:
    """Return the values that the templates of scripts and of snippets share. Raises OptionError
    where neither can represent the batches.
    """
    refused = refusal(framework, request)
    if refused is not None:
        raise OptionError(refused)
    # The launcher of the script sets the ranks; the script itself counts epochs and has the loss.
    written_settings = non_defaults(settings, Settings)
    for name in ("world_size", "epoch", "loss"):
        written_settings.pop(name, None)
    # Of most strategies, where ranks wait changes no batch.
    if not request.strategy.uses_wait:
        written_settings.pop("wait", None)
    return {
        "framework": framework,
        "lengths": lengths,
        "spec": request.spec,
        "settings": written_settings,
        "origin": [] if origin is None else _lines_of(origin),
    }


def _lines_of(origin: Origin) -> list[str]:
    """Return the comment on where the strategy comes from, and on what it means for the learning
    rate, as lines that leave room for `# ` before each.
    """
    hint = origin.hint
    text = f"Recommended by {literal(origin.path)}."
    if hint.batch_ratio != 1:
        text += (
            f" A step has {hint.batch_ratio:.3g} times the samples of {origin.current}: the "
            f"learning rate may scale by {hint.linear:.3g} (linear, {LINEAR_SOURCE}) or by "
            f"{hint.square_root:.3g} (square root, {SQUARE_ROOT_SOURCE})."
        )
    return wrap(text, _LINE_LENGTH - 2, break_long_words=False, break_on_hyphens=False)


def workflow(record: str = "") -> str:
    """Return a GitHub Actions workflow that runs `batchstat check`.

    It needs no token, so that it runs for pull requests from forks too.

    Args:
        record: the command that makes the recording that is checked; empty where none is. The
            workflow makes a new one each time: a recording has the data of the day it was made, so
            that the check of an old one could never fail.
    """
    text = (files("batchstat.render.recipes") / "workflow.yml").read_text(encoding="utf-8")
    text = text.replace("git+ADDRESS", _requirement())
    if not record:
        return text
    recording_steps = (
        "      # What the command itself needs, such as torch\n"
        "      - run: python -m pip install -r requirements.txt\n"
        f"      - run: {json.dumps(record)}\n"
    )
    # The recording is made just before it is checked.
    check_step = "      - run: batchstat check"
    return text.replace(check_step, recording_steps + check_step)


def _requirement() -> str:
    """Return what pip installs elsewhere to get this batchstat: its repository, at the commit that
    is installed here; or, where it came from elsewhere, at its version. `git+ADDRESS`, for the
    reader to complete, where the address of the repository is not known.
    """
    try:
        installed = distribution("batchstat")
    except PackageNotFoundError:  # it runs from a checkout
        return "git+ADDRESS"
    # What pip and uv write of a package that was named by an address (PEP 610).
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    commit = origin.get("vcs_info", {}).get("commit_id")
    if commit and not origin["url"].startswith("file:"):
        return f"git+{without_secrets(origin['url'])}@{commit}"
    urls = (url.partition(", ") for url in installed.metadata.get_all("Project-URL") or ())
    address = next((url for label, _, url in urls if label == "Repository"), None)
    return "git+ADDRESS" if address is None else f"git+{address}@v{installed.version}"


def holds_text(profile: Profile) -> bool:
    """Return whether a script can read and tokenize the samples of the corpus. It cannot where they
    are lengths, token ids or words.
    """
    is_other = any(source.format in ("npy", "conll") for source in profile.corpus.sources)
    return not (is_other or profile.corpus.options.content in ("tokens", "length", "words"))


def holds_chats(profile: Profile) -> bool:
    """Return whether a script renders chats. Raises InputError if the corpus cannot be read."""
    corpus, content = profile.corpus, profile.corpus.options.content
    return content == "messages" or (
        content == "completion" and begins_with_chats(corpus.sources[0], corpus.options)
    )


def refusal(framework: str, request: RowRequest) -> str | None:
    """Return why no script can represent the batches of a strategy, as a message with the remedy;
    None if one can. A script gets only record numbers, a list for each batch.
    """
    why, strategy, basis = "", request.strategy, request.settings
    # Outside of `FROM_ONE_PLAN` each rank has a plan of its own, and with `uneven` some ranks run a
    # step more: ranks may have different numbers of steps, which the script does not handle.
    may_differ = basis.remainder == "uneven" or basis.distribute not in FROM_ONE_PLAN
    if basis.overflow == "split" or strategy.cuts_samples:
        why = "splits samples, which needs starts and stops"
    elif strategy.sample_multiple > 1:
        why = "pads each sample of a row, which the script's collator does not do"
    elif strategy.pads_to_edges:
        why = "pads to edges, which needs the width of each batch"
    elif basis.remainder == "dummy":
        why = "with remainder=dummy has empty batches, which need a dummy step"
    elif basis.world_size > 1 and may_differ:
        ranks = f"distribute={basis.distribute}, remainder={basis.remainder}"
        why = f"with {ranks} may give ranks different numbers of steps"
    elif framework in _STEPS_OF_ONE_SIZE and strategy.varies_steps:
        trainer = _STEPS_OF_ONE_SIZE[framework]
        why = f"has steps with different numbers of batches, which {trainer} does not support"
    return f"{request.spec} {why}: write the script around BatchSampler.batches()" if why else None


def _template(name: str) -> "Template":
    """Return a template of this room, which may write values as Python literals (`literal`) and
    long imports over several lines (`import_of`).
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("batchstat.render.recipes", "."),
        autoescape=False,  # noqa: S701 - it is Python, not HTML
        keep_trailing_newline=True,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["literal"] = literal
    environment.globals["import_of"] = _import_of
    return environment.get_template(name)


def _import_of(module: str, names: Sequence[str]) -> str:
    """Return an import, over several lines if it is long."""
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _LINE_LENGTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _padding(strategy: Strategy) -> str:
    """Return the arguments of `tokenizer.pad` that make a batch as wide as the strategy does."""
    padding = "padding=True"
    # Every row is as wide as this, however short its samples are.
    if strategy.row_length is not None:
        padding = f'padding="max_length", max_length={strategy.row_length}'
    if strategy.pad_to_multiple_of > 1:
        padding += f", pad_to_multiple_of={strategy.pad_to_multiple_of}"
    return padding


def literal(value: object) -> str:
    """Return a value as a Python literal, text in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(key)}: {literal(item)}' for key, item in value.items())}}}"
    return repr(value)
