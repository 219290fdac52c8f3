"""What commands take beside the options of reading and the settings, as records."""

from dataclasses import MISSING, dataclass, make_dataclass
from pathlib import Path

from batchstat.gate.named_limits import NAMED_LIMITS
from batchstat.parameters import check_fields, option
from batchstat.planning.settings import COSTS

DEFAULT_FOLDER = Path("batchstat-results")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The corpus of a command that counts."""

    corpus: tuple[str, ...] = option(
        (),
        "Files, folders, glob patterns, URLs, or - for standard input: .txt .csv .tsv .jsonl "
        ".json .parquet .arrow .npy, each also .gz .bz2 .xz .zst. Default: the configuration's.",
        "",
        "CORPUS",
        is_argument=True,
    )


@dataclass(frozen=True, kw_only=True)
class OptionalCorpus:
    """The corpus of a command that can use the profile in the results folder."""

    corpus: tuple[str, ...] = option(
        (),
        "As for batchstat profile. Default: the configuration's, else the profile in the "
        "results folder.",
        "",
        "CORPUS",
        is_argument=True,
    )


@dataclass(frozen=True, kw_only=True)
class Template:
    """The chat template."""

    chat_template: Path | None = option(
        None, "Jinja chat template.", "Corpus", "FILE", shown="the tokenizer's"
    )


@dataclass(frozen=True, kw_only=True)
class Tokenization(Template):
    """What counts the tokens."""

    tokenizer: str | None = option(
        None,
        "Name on the Hugging Face Hub, local folder or tokenizer.json.",
        "Corpus",
        "NAME",
        shown="builtin",
    )


@dataclass(frozen=True, kw_only=True)
class Counting:
    """How counting is executed."""

    no_cache: bool = option(
        False, "Do not read or write the cache.", "Corpus", flags=("--no-cache",)
    )
    workers: int | None = option(
        None, "Number of threads or processes.", "Execution", "N", shown="number of cores"
    )
    executor: str | None = option(
        None,
        "Executor: threads, processes or dask.",
        "Execution",
        "NAME",
        shown="processes for a large corpus",
    )
    scheduler: str | None = option(
        None, "Address of the Dask scheduler.", "Execution", "tcp://HOST:PORT"
    )
    count_cache: str | None = option(
        None,
        "Folder for the counts of parts; a rerun counts only what is missing. All workers must "
        "be able to reach it.",
        "Execution",
        "DIR",
        shown="the cache; with dask, parts in the results folder",
    )


@dataclass(frozen=True, kw_only=True)
class Partial:
    """Whether a profile may lack splits."""

    allow_partial: bool = option(
        False,
        "Skip parts that cannot be read, and mark the profile as partial.",
        "Execution",
        flags=("--allow-partial",),
    )


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """Which splits of a corpus are counted."""

    shard: str | None = option(
        None,
        "Count shard I of N (1 ≤ I ≤ N) of the corpus, for batchstat merge.",
        "Execution",
        "I/N",
    )


@dataclass(frozen=True, kw_only=True)
class Shards:
    """The shards to merge."""

    shards: tuple[str, ...] = option(
        MISSING,
        "Folders written by batchstat profile --shard I/N -o FOLDER.",
        "",
        "SHARD",
        is_argument=True,
    )


@dataclass(frozen=True, kw_only=True)
class Framework:
    """The framework of a training script."""

    framework: str = option(
        "torch",
        "Framework: torch, accelerate or trainer.",
        "",
        "FRAMEWORK",
        is_argument=True,
    )


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names to explain."""

    name: tuple[str, ...] = option(
        (), "A column, a key, a strategy, …", "", "NAME", is_argument=True
    )


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """The strategy of a command that simulates one."""

    strategy: str | None = option(
        None,
        "One strategy: name or name:key=value,key=value.",
        "Batching",
        "SPEC",
        shown="token-budget",
    )


@dataclass(frozen=True, kw_only=True)
class Table:
    """The rows of a comparison."""

    strategy: tuple[str, ...] = option(
        (),
        "A strategy to compare, batchstat's own or a framework's: NAME or "
        "NAME:key=value,key=value. `batchstat explain strategy` names all. Repeatable.",
        "Batching",
        "SPEC",
        shown="fixed, static, bucketed, token-budget, packed",
    )
    every: bool = option(
        False, "Compare every strategy of batchstat's own.", "Batching", flags=("--all",)
    )
    seeds: int = option(1, "Repeat with N seeds and report the spread.", "Batching", "N")
    subsample: str | None = option(
        None,
        "Estimate from this share of the corpus, with a confidence interval; not for check.",
        "Batching",
        "1%",
        shown="the whole corpus",
    )
    export: Path | None = option(
        None,
        "Write the batches of the row in bold, for all ranks, for BatchSampler.from_plan.",
        "Output",
        "FILE",
    )


@dataclass(frozen=True, kw_only=True)
class Model:
    """The transformer whose compute is estimated."""

    model: str | None = option(
        None,
        "Estimate a transformer's compute: hidden=768,layers=12, or a folder with config.json.",
        "Batching",
        "SHAPE",
    )


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """The search for bucket edges."""

    buckets: int = option(8, "Number of buckets.", "Batching", "K")
    min_bucket_samples: int = option(1, "Fewest samples per bucket.", "Batching", "N")
    cost: str | None = option(
        None,
        "What to minimise: linear (padding), quadratic (attention) or model (the cost by --model).",
        "Batching",
        "COST",
        shown="model with --model, else linear",
        values=COSTS,
    )

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Samplers:
    """The samplers that `balance` compares."""

    samplers: tuple[str, ...] = option(
        (),
        "A sampler to compare, such as downsampling, count=N or weights=A:1,B:3; "
        "`batchstat explain sampler` names all. Repeatable.",
        "Classes",
        "SPEC",
        shown="none, downsampling, upsampling, weighted-random, dynamic",
        flags=("--sampler",),
    )
    epochs: int = option(10, "Number of epochs over which coverage is tracked.", "Classes", "N")


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Where results are."""

    output: Path = option(
        DEFAULT_FOLDER,
        "Results folder (a path or a URL).",
        "Output",
        "DIR",
        shown=DEFAULT_FOLDER.as_posix(),
        flags=("-o", "--output"),
    )


@dataclass(frozen=True, kw_only=True)
class Output(Folder):
    """What is written where."""

    as_json: bool = option(False, "Print the JSON that is written.", "Output", flags=("--json",))
    plots: bool = option(True, "Draw plots.", "Output", shown="plots")


@dataclass(frozen=True, kw_only=True)
class ConfigFile:
    """Which configuration is in force."""

    config: Path | None = option(
        None,
        "Configuration file: batchstat.toml or pyproject.toml.",
        "Output",
        "FILE",
        shown="the nearest in this folder or above",
    )
    no_config: bool = option(
        False, "Ignore the configuration file.", "Output", flags=("--no-config",)
    )


@dataclass(frozen=True, kw_only=True)
class Checks:
    """The checks of the configuration to run."""

    check: tuple[str, ...] = option(
        (), "Run only this check of the configuration. Repeatable.", "Output", "NAME", shown="all"
    )


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What a check reports."""

    format: tuple[str, ...] = option(
        (),
        "Output format: text, json, markdown, junit or github; =FILE writes it to a file. "
        "Repeatable.",
        "Output",
        "NAME[=FILE]",
        shown="text",
    )
    warn_only: bool = option(
        False, "Report exceeded limits, but exit with 0.", "Output", flags=("--warn-only",)
    )
    subsample: str | None = option(
        None,
        "Estimate from this share of the corpus, with a confidence interval; not for check.",
        "Batching",
        "1%",
        shown="the whole corpus",
    )


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The baseline that a check is compared with."""

    baseline: Path | None = option(None, "Compare with this baseline.", "Limits", "FILE")


@dataclass(frozen=True, kw_only=True)
class BaselineFile:
    """The baseline to write."""

    baseline: Path | None = option(
        None,
        "Baseline file to write.",
        "Output",
        "FILE",
        shown="the configuration's, or batchstat-baseline.json",
    )


# As text, because 5% is not a number yet; one that is on or off is a switch.
Limits = make_dataclass(
    "Limits",
    [
        (
            name.replace("-", "_"),
            bool | None if limit.example is None else str | None,
            option(
                None,
                limit.help,
                "Limits",
                limit.example,
                flags=(f"--{name}",),
            ),
        )
        for name, limit in NAMED_LIMITS.items()
    ],
    bases=(Baseline,),
    frozen=True,
    kw_only=True,
)
