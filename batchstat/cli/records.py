"""What commands take beside the options of reading and the settings, as records."""

from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

from batchstat.corpus.options import CorpusOptions
from batchstat.errors import OptionError
from batchstat.findings import catalogue
from batchstat.gate.named_limits import NAMED_LIMITS
from batchstat.parameters import check_fields, names_in, option
from batchstat.storage.result_files import PLOT_FORMATS

STRATEGY_NAMES = names_in("batchstat.planning.strategies.registry", "STRATEGIES")
DEFAULT_FOLDER = Path("batchstat-results")


def corpus_argument(help: str) -> Any:
    """Return the field of the corpus, which is named by its place."""
    return option((), help, "", "CORPUS", is_argument=True)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The corpus of a command that counts."""

    corpus: tuple[str, ...] = corpus_argument(
        "Files, folders, glob patterns, URLs, or - for standard input: .txt .csv .tsv .jsonl "
        ".json .parquet .arrow .npy, each also .gz .bz2 .xz .zst. Default: the configuration's."
    )


@dataclass(frozen=True, kw_only=True)
class OptionalCorpus:
    """The corpus of a command that can use the profile in the results folder."""

    corpus: tuple[str, ...] = corpus_argument(
        "As for profile. Default: the configuration's, else the profile in the results folder."
    )


@dataclass(frozen=True, kw_only=True)
class Tokenization:
    """What counts the tokens."""

    chat_template: Path | None = option(
        None, "Jinja chat template.", "Corpus", "FILE", shown="the tokenizer's"
    )
    tokenizer: str | None = option(
        None,
        "Name on the Hugging Face Hub, local folder or tokenizer.json.",
        "Corpus",
        "NAME",
        shown="builtin",
        is_common=True,
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
        names=names_in("batchstat.profiling.executors", "NAMES"),
    )
    scheduler: str | None = option(
        None, "Address of the Dask scheduler.", "Execution", "tcp://HOST:PORT"
    )
    count_cache: str | None = option(
        None,
        "Folder for the counts of splits; a rerun counts only what is missing. All workers must "
        "be able to reach it.",
        "Execution",
        "DIR",
        shown="the cache; with dask, splits in the results folder",
    )


READING = (Tokenization, CorpusOptions, Counting)  # how a corpus is read and counted


@dataclass(frozen=True, kw_only=True)
class Partial:
    """Whether a profile may lack splits."""

    allow_partial: bool = option(
        False,
        "Skip splits that cannot be read, and mark the profile as partial.",
        "Execution",
        flags=("--allow-partial",),
    )


@dataclass(frozen=True, kw_only=True)
class Current:
    """The setup of today."""

    current: str | None = option(
        None,
        "Your setup: a strategy, trainer's file or recording.",
        "Batching",
        "SPEC",
        names=STRATEGY_NAMES,
        is_common=True,
    )
    framework: str | None = option(
        None,
        "Framework that the trainer's configuration is for.",
        "Batching",
        "NAME",
        shown="the one that knows most of its keys",
        names=names_in("batchstat.trainers.registry", "CONFIGURATIONS"),
    )
    ignore_keys: tuple[str, ...] = option(
        (), "Key of the trainer's file that changes no data or batches.", "Batching", "KEY"
    )


@dataclass(frozen=True, kw_only=True)
class Model:
    """The transformer whose compute is estimated."""

    model: str | None = option(
        None,
        "Estimate this model's compute: a name such as llama-3-8b or one on the Hugging Face Hub, "
        "a config.json or its folder, or hidden=768,layers=12.",
        "Batching",
        "MODEL",
        is_common=True,
        names=names_in("batchstat.calibration.known_models", "KNOWN_MODELS"),
    )


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Where results are."""

    output: Path = option(
        DEFAULT_FOLDER,
        "Results folder or URL.",
        "Output",
        "DIR",
        shown=DEFAULT_FOLDER.as_posix(),
        flags=("-o", "--output"),
        is_common=True,
    )


@dataclass(frozen=True, kw_only=True)
class Json:
    """Whether JSON is printed instead of a screen."""

    as_json: bool = option(
        False, "Print the JSON that is written.", "Output", flags=("--json",), is_common=True
    )


@dataclass(frozen=True, kw_only=True)
class Report:
    """How a recording is reported."""

    as_json: bool = option(
        False, "Print the report as JSON.", "Output", flags=("--json",), is_common=True
    )


@dataclass(frozen=True, kw_only=True)
class Output(Json, Folder):
    """What is written where."""

    plots: bool = option(True, "Draw plots.", "Output", shown="plots")
    plot_format: str = option(
        "png", "File format of plots: png, svg or pdf.", "Output", "FORMAT", values=PLOT_FORMATS
    )

    html: Path | None = option(
        None, "Write a page to share: one HTML file.", "Output", "FILE", is_common=True
    )
    open_page: bool = option(False, "Open that page in a browser.", "Output", flags=("--open",))

    def __post_init__(self) -> None:
        check_fields(self)
        if self.open_page and self.html is None:
            raise OptionError("--open shows the page that --html writes", "add --html FILE")


@dataclass(frozen=True, kw_only=True)
class Details:
    """How much a screen shows."""

    details: bool = option(
        False, "Show all numbers.", "Output", flags=("--details",), is_common=True
    )


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
class Ignored:
    """The findings that are not shown."""

    ignore: tuple[str, ...] = option(
        (),
        "Do not show findings with this id, such as padding/over-budget. Repeatable.",
        "Output",
        "ID",
        names=catalogue,
    )


REPORTING = (Output, Details, Ignored, ConfigFile)
"""How the results of a command are written and shown, and which configuration is in force."""


@dataclass(frozen=True, kw_only=True)
class Checks:
    """The checks of the configuration to run."""

    check: tuple[str, ...] = option(
        (),
        "Run only this check of the configuration. Repeatable.",
        "Output",
        "NAME",
        shown="all",
        is_common=True,
    )


@dataclass(frozen=True, kw_only=True)
class Base:
    """What a check is compared with."""

    base: str | None = option(
        None, "Git revision, or check.json, to compare with.", "Limits", "REF|FILE", is_common=True
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
                is_common=name in ("max-padding", "min-fill", "max-truncated"),
            ),
        )
        for name, limit in NAMED_LIMITS.items()
    ],
    bases=(Base,),
    frozen=True,
    kw_only=True,
)
