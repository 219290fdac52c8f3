"""Six unchanged scripts without and with `run --apply`: losses, parameters, padding and seconds.

python tests/benchmarks/apply.py [--scripts NAME …] [--ranks 1 2] [--rounds N] [--processor]
    [--keep FOLDER]

The scripts are in `apply_scripts`: a Trainer of transformers, SFTTrainer of TRL, a plain loop, one
of accelerate that accumulates, Lightning and T5, each with a small model of random weights, without
dropout. Each is started in turn as it is and with `--apply`, on one rank and on two with gloo, of
one thread each; the first of its rounds makes the dry run, the others take that. Three can compute
in float64, and do so once more. The Trainer also runs with rows that its collator pads, of which
nothing is left to cut.

It needs torch, transformers, TRL, accelerate and Lightning, and prints a table. Seconds are those
of the training, which the script takes itself, without the dry run: the median of the rounds; with
`--processor` of the processor alone, for a shared machine. The last column is how much of the saved
tokens was saved in seconds. It fails where a loss or parameter
differs by more than 1e-5, in float64 1e-10, and where nothing was cut, or something of the rows
that a collator pads.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SCRIPTS = Path(__file__).parent / "apply_scripts"
CORPUS = Path(__file__).parents[2] / "sample_data" / "corpus.txt"
MOST = {"float32": 1e-5, "float64": 1e-10}
"""By how much losses, as a share, and parameters may differ."""
FEWEST_STEPS = 10
WORDS = 1_000


@dataclass(frozen=True)
class Case:
    """A script, how it is started, and how many ranks it has."""

    script: str
    arguments: tuple[str, ...] = ()
    ranks: int = 1
    is_cut: bool = True  # whether there is padding to cut

    @property
    def numbers(self) -> str:
        return "float64" if "--double" in self.arguments else "float32"

    @property
    def name(self) -> str:
        return " ".join((self.script, *self.arguments))

    def command(self, tokenizer: Path, left: Path) -> list[str]:
        """The words that start it."""
        script = [str(SCRIPTS / f"{self.script}.py"), str(tokenizer), str(left), *self.arguments]
        if self.ranks == 1:
            return [sys.executable, *script]
        launcher = [str(Path(sys.executable).with_name("torchrun")), "--standalone"]
        return [*launcher, "--nproc-per-node", str(self.ranks), *script]


CASES = (
    Case("hf_trainer"),
    Case("trl_sft"),
    Case("plain_loop"),
    Case("plain_loop", ("--double",)),
    Case("accelerated"),
    Case("accelerated", ("--double",)),
    Case("lightning_fit"),
    Case("lightning_fit", ("--double",)),
    Case("encoder_decoder"),
    Case("hf_trainer", ("--collated",), is_cut=False),
)


@dataclass
class Found:
    """What the two trainings of a case came to."""

    case: Case
    steps: int  # of a rank, or its batches where it prints the loss of each
    loss: float  # the largest difference of a loss, as a share
    parameter: float  # the largest difference of a parameter
    applied: dict[str, Any]  # what the report says of the run
    seconds: dict[bool, list[float]] = field(default_factory=dict)  # with `--apply` or without

    @property
    def padding(self) -> tuple[float, float]:
        """The share of padding as the loaders make it, and as it was computed."""
        real = self.applied["real_tokens"]
        before, now = self.applied["tokens_before"], self.applied["total_tokens"]
        return 1 - real / before, 1 - real / now

    @property
    def saved(self) -> tuple[float, float]:
        """What share was saved, of tokens and of seconds."""
        tokens = 1 - self.applied["total_tokens"] / self.applied["tokens_before"]
        without, cut = (median(self.seconds[how]) for how in (False, True))
        return tokens, 1 - cut / without

    @property
    def failures(self) -> list[str]:
        """What is not as it must be."""
        name, most = f"{self.case.name}, ranks: {self.case.ranks}", MOST[self.case.numbers]
        found = []
        if self.steps < FEWEST_STEPS:
            found.append(f"{name}: only {self.steps} steps")
        if not self.loss <= most:
            found.append(f"{name}: a loss differs by {self.loss:.1e}")
        if not self.parameter <= most:
            found.append(f"{name}: a parameter differs by {self.parameter:.1e}")
        if bool(self.applied["cut_batches"]) != self.case.is_cut:
            why = self.applied["why_not"] or f"{self.applied['cut_batches']} batches"
            found.append(f"{name}: cut, or not cut, against what it is held to: {why}")
        return found


def make_tokenizer(folder: Path) -> None:
    """A small tokenizer of the corpus, in the files of transformers."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<pad>", "<eos>"]
    tokenizer.train(
        [str(CORPUS)],
        trainers.BpeTrainer(
            vocab_size=WORDS,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=special[0], eos_token=special[1]
    )
    made.save_pretrained(folder)


def started(command: Sequence[str], folder: Path) -> None:
    """Run a command with one thread to a rank; what it printed is shown where it fails."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    (folder / "printed.txt").write_text(ended.stdout + ended.stderr)
    if ended.returncode:
        print(ended.stdout[-4_000:], ended.stderr[-4_000:], file=sys.stderr)
        sys.exit(f"exit code {ended.returncode} of {' '.join(command)}")


def read_left(left: Path) -> list[dict[str, Any]]:
    """What each rank of a script left."""
    return [torch.load(file) for file in sorted(left.glob("rank-*.pt"))]


def largest(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """The largest difference of numbers; infinite where one is no number."""
    found = max(float((a.double() - b.double()).abs().max()) for a, b in pairs)
    return found if found == found else float("inf")


def compared(case: Case, tokenizer: Path, folder: Path, rounds: int, clock: str) -> Found:
    """Train without and with `--apply`, in turn. `clock` names the time that is taken."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    left = {False: folder / "without", True: folder / "with"}
    recorded, applied = folder / "recording", {}
    apply = [sys.executable, "-m", "batchstat", "run", "--apply", "-o", str(recorded)]
    for _ in range(rounds):
        for is_applied in (False, True):
            before = apply if is_applied else []
            started([*before, *case.command(tokenizer, left[is_applied])], folder)
            ranks = read_left(left[is_applied])
            if len(ranks) != case.ranks:
                sys.exit(f"{case.name}: {len(ranks)} ranks have left something")
            seconds[is_applied].append(max(rank[clock] for rank in ranks))
        applied = json.loads((recorded / "preflight.json").read_text())["run"]["applied"]
    both = [*zip(read_left(left[False]), read_left(left[True]), strict=True)]
    losses = [tuple(torch.tensor(each["losses"]).double() for each in pair) for pair in both]
    if any(a.shape != b.shape for a, b in losses):
        sys.exit(f"{case.name}: trainings of different numbers of steps")
    return Found(
        case=case,
        steps=min(len(a) for a, _ in losses),
        loss=largest([(b / a, torch.ones(())) for a, b in losses]),
        parameter=largest(
            [(a["parameters"][n], b["parameters"][n]) for a, b in both for n in a["parameters"]]
        ),
        applied=applied,
        seconds=seconds,
    )


HEADS = (
    "script",
    "ranks",
    "numbers",
    "losses",
    "of them apart by",
    "parameters apart by",
    "padding",
    "seconds without",
    "with",
    "of the saved tokens, in seconds",
)


def row_of(found: Found) -> tuple[str, ...]:
    before, now = found.padding
    tokens, seconds = found.saved
    without, cut = (median(found.seconds[how]) for how in (False, True))
    name = found.case.name.removesuffix(" --double")
    of_saved = f"{seconds / tokens:.0%}" if tokens else f"{1 / (1 - seconds) - 1:+.1%} of all"
    return (
        name,
        str(found.case.ranks),
        found.case.numbers,
        str(found.steps),
        f"{found.loss:.1e}" if found.loss else "equal",
        f"{found.parameter:.1e}" if found.parameter else "equal",
        f"{before:.1%} → {now:.1%}",
        f"{without:.2f}",
        f"{cut:.2f}",
        of_saved,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = sorted({case.script for case in CASES})
    parser.add_argument("--scripts", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--processor", action="store_true", help="processor time, not time")
    parser.add_argument("--keep", type=Path, help="where recordings and output stay")
    given = parser.parse_args()
    failures = []
    with TemporaryDirectory() as temporary:
        folder = (given.keep or Path(temporary)).resolve()
        make_tokenizer(folder / "tokenizer")
        print(f"| {' | '.join(HEADS)} |\n|---|{'---:|' * (len(HEADS) - 1)}")
        for case, ranks in itertools.product(CASES, given.ranks):
            if case.script not in given.scripts:
                continue
            each = Case(case.script, case.arguments, ranks, case.is_cut)
            own = folder / f"{each.name} {ranks}".replace(" ", "_")
            own.mkdir(parents=True, exist_ok=True)
            clock = "processor" if given.processor else "seconds"
            found = compared(each, folder / "tokenizer", own, given.rounds, clock)
            print(f"| {' | '.join(row_of(found))} |", flush=True)
            failures += found.failures
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
