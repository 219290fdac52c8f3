"""Lines that make a training script use the batches of a setting; and the workflow of `init`."""

import json
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from textwrap import wrap

from batchstat.documents.comparison import LearningRateHint
from batchstat.errors import OptionError
from batchstat.hidden_secrets import LEFT_OUT, without_secrets
from batchstat.planning.rules import FROM_ONE_PLAN
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.spec import RowRequest
from batchstat.render.command_lines import COMPLETE, non_defaults
from batchstat.simulation.compare.changes import LINEAR_SOURCE, SQUARE_ROOT_SOURCE

_LINES = {
    "torch": """\
import os

from torch.utils.data import DataLoader

from batchstat import BatchSampler

rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
sampler = BatchSampler(
    {lengths},
    {spec},
    rank=rank,
    world_size=world_size,{settings}
)
loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=collate)
# In your training loop, before each epoch: sampler.set_epoch(epoch)
""",
    "accelerate": """\
from torch.utils.data import DataLoader

from batchstat import BatchSampler

sampler = BatchSampler(
    {lengths},
    {spec},
    rank=accelerator.process_index,
    world_size=accelerator.num_processes,{settings}
)
# Not for accelerator.prepare: the sampler already shards across ranks.
loader = DataLoader(dataset, batch_sampler=sampler, collate_fn=collate)
# In your training loop, before each epoch: sampler.set_epoch(epoch)
""",
    "trainer": """\
from batchstat import BatchSampler
from batchstat.training.integrations.huggingface import with_batches

sampler = BatchSampler(
    {lengths},
    {spec},
    rank=trainer.args.process_index,
    world_size=trainer.args.world_size,{settings}
)
trainer = with_batches(trainer, sampler)
trainer.train()
""",
    "lightning": """\
from batchstat import BatchSampler
from batchstat.training.integrations.lightning import BatchLoader

sampler = BatchSampler(
    {lengths},
    {spec},
    rank=trainer.global_rank,
    world_size=trainer.world_size,{settings}
)
loader = BatchLoader(trainer, dataset, sampler, collate_fn=collate)
trainer.fit(model, loader)  # a Trainer(reload_dataloaders_every_n_epochs=1)
""",
}
"""The lines, by framework. `{settings}` is a line for each, each begun by a line break."""
FRAMEWORKS = tuple(_LINES)

_STEPS_OF_ONE_SIZE = {"trainer": "Trainer", "lightning": "Lightning"}
"""Frameworks that compute equally many batches in every step, by their flags."""


@dataclass(frozen=True)
class Origin:
    """The comparison that recommends a strategy."""

    path: str
    current: str
    hint: LearningRateHint
    is_run: bool = False  # whether its samples are in the sequence of a recorded run


def recipe(
    framework: str,
    lengths: str,
    request: RowRequest,
    settings: Settings,
    origin: Origin | None = None,
) -> str:
    """Return the lines that make an existing training script use the batches that `compare`
    measures. It has a `dataset`, a `collate`, and, by framework, an `accelerator`, a `trainer` or a
    `model`. Raises OptionError: record numbers alone cannot represent the batches.
    """
    refused = refusal(framework, request)
    if refused is not None:
        raise OptionError(refused)
    comment = [] if origin is None else [f"# {line}" for line in _lines_of(origin)]
    if request.strategy.packs_rows:
        comment.append(
            "# Rows hold several samples: collate must keep them apart, as "
            "DataCollatorWithFlattening does."
        )
    # The launcher of the user's script sets the ranks; the script counts epochs and has the loss.
    written_settings = non_defaults(settings, Settings)
    for name in ("world_size", "epoch", "loss"):
        written_settings.pop(name, None)
    # Of most strategies, where ranks wait changes no batch.
    if not request.strategy.uses_wait:
        written_settings.pop("wait", None)
    lines = _LINES[framework].format(
        lengths=literal(lengths),
        spec=literal(request.spec),
        settings="".join(f"\n    {k}={literal(v)}," for k, v in written_settings.items()),
    )
    return "\n".join([*comment, "", lines]) if comment else lines


def _lines_of(origin: Origin) -> list[str]:
    """Return the comment on the strategy and the learning rate, as lines of 100 characters."""
    hint = origin.hint
    text = f"Recommended by {literal(origin.path)}."
    if hint.batch_ratio != 1:
        text += (
            f" A step has {hint.batch_ratio:.3g} times the samples of {origin.current}: the "
            f"learning rate may scale by {hint.linear:.3g} (linear, {LINEAR_SOURCE}) or by "
            f"{hint.square_root:.3g} (square root, {SQUARE_ROOT_SOURCE})."
        )
    if origin.is_run:
        text += ' order="file" is that of the recorded epoch: leave it out to shuffle every epoch.'
    return wrap(text, 98, break_long_words=False, break_on_hyphens=False)


def workflow(record: str = "") -> str:
    """Return a GitHub Actions workflow that runs `batchstat check`.

    It needs no token, so that it runs for pull requests from forks too.
    """
    text = (files("batchstat.render.recipes") / "workflow.yml").read_text(encoding="utf-8")
    text = text.replace("git+ADDRESS", _requirement())
    if not record:
        return text
    shown = json.dumps(record).replace("\\u2026", LEFT_OUT)
    recording_steps = (
        "      # What the command itself needs, such as torch\n"
        "      - run: python -m pip install -r requirements.txt\n"
        f"      - run: {shown}{COMPLETE if LEFT_OUT in record else ''}\n"
    )
    # The recording is made just before it is checked.
    check_step = "      - run: batchstat check"
    return text.replace(check_step, recording_steps + check_step)


def _requirement() -> str:
    """Return what pip installs to get this batchstat; if unknown `git+ADDRESS`, to complete."""
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


def refusal(framework: str, request: RowRequest) -> str | None:
    """Return why record numbers cannot represent the batches, with the remedy; None if they can."""
    why, strategy, basis = "", request.strategy, request.settings
    # Ranks with plans of their own, or `uneven`, differ in steps: a loop over a loader hangs.
    may_differ = basis.remainder == "uneven" or basis.distribute not in FROM_ONE_PLAN
    if basis.overflow == "split" or strategy.cuts_samples:
        why = "splits samples, which needs starts and stops"
    elif strategy.sample_multiple > 1:
        why = "pads each sample of a row, which needs a collator that does"
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


def literal(value: object) -> str:
    """Return a value as a Python literal, text in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return repr(value)
