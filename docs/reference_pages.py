"""The pages of the reference, made from what batchstat declares: they are never edited."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields
from functools import cache
from pathlib import Path
from typing import Any

from markdown_text import code, page, prose, table
from reference_commands import commands

import batchstat
from batchstat.cli.configuration import KEYS
from batchstat.cli.device import Calibrated
from batchstat.cli.records import Base, Current, Ignored, Model, Tokenization
from batchstat.corpus.options import CorpusOptions
from batchstat.documents.schema import FILES, schema
from batchstat.errors import InputError, OptionError
from batchstat.findings import catalogue
from batchstat.gate.limits import LEVELS
from batchstat.gate.named_limits import NAMED_LIMITS
from batchstat.parameters import options_of
from batchstat.planning.settings import Settings
from batchstat.planning.strategies.registry import FRAMEWORKS, OWN_STRATEGIES
from batchstat.render.glossary import COLUMNS, WORDS, Entry, entries, explain, parameters

ENVIRONMENT = {
    "BATCHSTAT_CACHE_DIR": "Folder of the cache of counts. Default: `batchstat` in "
    "`XDG_CACHE_HOME`, else in `~/.cache`.",
    "XDG_CACHE_HOME": "Folder that holds the cache where `BATCHSTAT_CACHE_DIR` is not set.",
    "COLUMNS": "Width of the screens. Default: the terminal's, or 100 where the output is not one.",
    "NO_COLOR": "Any value: print without colour.",
    "FORCE_COLOR": "Any value: print in colour where the output is not a terminal, too.",
    "TERM": "dumb: print without colour.",
    "BATCHSTAT_RUN": "What the processes of a recorded command are to do; `batchstat run` sets it.",
    "TORCHELASTIC_RUN_ID": "The id of a run that torchrun starts on several nodes; see `--run-id`.",
    "SLURM_JOB_ID": "With `SLURM_STEP_ID`, the same of a step that `srun` starts.",
    "SLURM_STEP_ID": "See `SLURM_JOB_ID`.",
    "RANK": "The rank of a recorded process before torch.distributed is initialized.",
    "WORLD_SIZE": "The number of ranks, likewise.",
    "CI": "Set: `check` does not warn of an old recording, which a workflow has just made.",
    "GITHUB_STEP_SUMMARY": "File to which `check --format github` adds its table; GitHub Actions "
    "sets it.",
    "RAYON_NUM_THREADS": "Threads of the tokenizers library. Default: as `--workers`.",
    "FASTOKENS_BPE_THREADS": "Threads of the fast engine. Default: as `--workers`.",
    "OPENBLAS_NUM_THREADS": "Threads that NumPy starts for products of matrices. Default: 1, as no "
    "command computes any.",
    "TRANSFORMERS_VERBOSITY": "What transformers reports while a tokenizer loads. Default: error.",
    "HF_HUB_OFFLINE": "1: take tokenizers from the local Hugging Face cache only.",
}
"""Environment variables that change what batchstat does."""

EXIT_CODES = {
    0: "Done; all limits are kept.",
    1: "A limit was exceeded, and nothing else.",
    OptionError.exit_code: "The arguments or the configuration are wrong by themselves, whatever "
    "the input.",
    InputError.exit_code: "No answer could be had from the input or the machine: no corpus, an "
    "empty or unreadable one, a stale profile, no space left.",
    130: "Interrupted with Ctrl-C.",
}


def write_pages(folder: Path) -> None:
    """Write all pages and the JSON Schemas into a folder."""
    (folder / "schemas").mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    for name in FILES:
        text = json.dumps(schema(name), indent=2, ensure_ascii=False)
        (folder / "schemas" / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


@cache
def pages() -> dict[str, str]:
    """Return the Markdown of each page, by its name."""
    made = {
        "commands": page("Commands", commands()),
        "strategies": page("Strategies", _strategies()),
        "samplers": page("Samplers", _samplers()),
        "metrics": page("Words and columns", _metrics()),
        "limits": page("Limits", _limits()),
        "configuration": page("Configuration", _configuration()),
        "findings": page("Findings", _findings()),
        "json": page("JSON files", _json()),
        "environment": page("Exit codes and environment variables", _environment()),
        "python": page("Python", _python()),
    }
    contents = [
        "Generated from batchstat's own declarations, for this version.",
        "```{toctree}\n:maxdepth: 2\n\n" + "\n".join(made) + "\n```",
    ]
    return {"index": page("Reference", contents), **made}


# What has a name


def _of_kind(kind: str) -> list[Entry]:
    return [entry for entry in entries() if entry.kind == kind]


def _strategies() -> Iterator[str]:
    known = {entry.name: entry for entry in _of_kind("strategy")}
    yield (
        "A strategy turns the lengths of an epoch into batches. Write it `--strategy NAME` or "
        "`--strategy NAME:key=value,key=value`; a parameter beats the setting of the same name."
    )
    for title, names in (("batchstat's own", OWN_STRATEGIES), ("Frameworks", FRAMEWORKS)):
        yield f"## {title}"
        for name in names:
            yield from _entry(known[name], "###")
    yield "## Rules for bucket edges"
    rules = _of_kind("rule for bucket edges")
    yield table(["rule", "meaning"], ((code(each.name), prose(each.text)) for each in rules))
    yield from _values()


def _samplers() -> Iterator[str]:
    yield (
        "A sampler decides which samples an epoch has, and how often each. Write it `--sampler "
        "NAME` or `--sampler NAME:key=value`."
    )
    for entry in _of_kind("sampler"):
        yield from _entry(entry, "##")


def _entry(entry: Entry, heading: str) -> Iterator[str]:
    yield f"{heading} {entry.name}"
    yield prose(entry.text)
    meanings = {name: declared.help for name, (_, declared) in parameters().items()}
    meanings = {**{name: each.help for name, each in options_of(Settings).items()}, **meanings}
    rows = [
        (
            code(name),
            f"as {code(value[3:])}" if value.startswith("as ") else code(value),
            prose(meanings.get(name, "")),
        )
        for name, value in entry.facts
    ]
    if rows:
        yield table(["parameter", "default", "meaning"], rows)


def _values() -> Iterator[str]:
    found: dict[str, list[Entry]] = {}
    for entry in entries():
        if entry.kind.startswith("value of "):
            found.setdefault(entry.kind.removeprefix("value of "), []).append(entry)
    yield "## Values of parameters and settings"
    for name, values in found.items():
        yield f"### {name}"
        yield table(["value", "meaning"], ((code(e.name), prose(e.text)) for e in values))


def _metrics() -> Iterator[str]:
    yield "`batchstat explain NAME` prints the same in a terminal."
    yield "## Words"
    yield table(["word", "meaning"], ((word, prose(text)) for word, text in WORDS.items()))
    yield "## Columns of the screens"
    yield "Every column shows a number of the [JSON files](json.md)."
    rows = []
    for column in COLUMNS:
        for each in explain(column):
            key = each.kind if ".json" in each.kind else each.name
            rows.append((column, code(key), prose(each.text)))
            column = ""  # a name with several meanings is shown once
    yield table(["column", "key", "meaning"], rows)


# Limits, configuration, files


def _limits() -> Iterator[str]:
    yield (
        "A limit is inclusive. Ratios are written `5%` or `0.05`, differences of ratios `0.5pp`. "
        "Any other number of `check.json` is limited by its path, in the "
        "[configuration](configuration.md)."
    )
    rows = (
        (code(f"--{name} {each.example or ''}".strip()), code(each.path), prose(each.help))
        for name, each in NAMED_LIMITS.items()
    )
    yield table(["limit", "number", "meaning"], rows)


def _configuration() -> Iterator[str]:
    yield (
        "Settings are read from `[tool.batchstat]` of `pyproject.toml`, or from `batchstat.toml`, "
        "in the working folder or the nearest folder above it. Flags beat the file, and the file "
        "beats defaults. `batchstat config` prints what is in force and where it is set; "
        "`--no-config` ignores the file."
    )
    of_commands = (Tokenization, Current, Model, Calibrated, Base, Ignored)
    records = (CorpusOptions, Settings, *of_commands)
    declared = {each.name: each for record in records for each in fields(record)}
    yield "## Keys"
    rows = [("`corpus`", "Files, folders, patterns or URLs: text, or a list.", "")]
    for key in KEYS[1:]:
        option = declared[key].metadata["option"]
        rows.append((code(key.replace("_", "-")), prose(option.help), _default(declared[key])))
    yield table(["key", "meaning", "default"], rows)
    yield "## Tables"
    yield (
        "`limits` holds [limits](limits.md) by name, or by the path of a number of `check.json`: "
        '`lengths.p99 = { max = 512 }`, `"classes[label=positive].share" = { min = "5%" }`. A path '
        "has dots between keys, `[0]` for an element of a list and `[key=value]` for the one with "
        "that value (in quotes where it has brackets; `null` for samples without a label)."
    )
    yield "`checks.NAME` is a check with settings and limits of its own, beside those of all."
    levels = ", ".join(code(level) for level in LEVELS)
    yield (
        "A limit is text or a number, or a table, as in "
        f'`min-fill = {{ limit = "95%", level = "warn" }}`. Levels are {levels}. Bounds are `max`, '
        "`min`, and against a base `max-increase` and `max-decrease`."
    )


def _default(field: "Field[Any]") -> str:
    shown = field.metadata["option"].shown
    if shown is not None and not isinstance(field.default, bool):
        return prose(shown)
    return "" if field.default in (None, ()) else code(json.dumps(field.default).strip('"'))


def _findings() -> Iterator[str]:
    yield (
        "A warning is a finding, and ends with its id: `warning: … [ranks/unequal-steps]`. The id "
        "is the same in JSON, annotations, JUnit, Markdown and HTML. `batchstat explain ID` prints "
        'what is below. `--ignore ID`, or `ignore = ["ID", …]` in the '
        "[configuration](configuration.md), silences it everywhere; an id that does not exist is "
        "an error."
    )
    for name, each in catalogue().items():
        yield f"## {name}"
        yield f"{prose(each.what)}\n\n{prose(each.why)}\n\n**Fix.** {prose(each.fix)}"


def _json() -> Iterator[str]:
    yield (
        "Ratios are in [0, 1] and counts are integers. Keys may be added; renaming or removing "
        "one raises the number in `schema`. The same input and settings give the same bytes, "
        "except for `created`."
    )
    for name in FILES:
        described = schema(name)
        yield f"## {name}.json"
        yield f"{prose(described['description'])} {{download}}`JSON Schema <schemas/{name}.json>`"
        yield table(["key", "type", "meaning"], _keys(described))


def _keys(part: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the keys of a JSON Schema, those of nested objects and lists with their paths."""
    options = [each for each in part.get("anyOf", [part]) if each.get("type") != "null"]
    if path:
        text = part.get("description") or next((o.get("description", "") for o in options), "")
        yield code(path), _type(part), prose(text)
    for each in options:
        for name, below in each.get("properties", {}).items():
            yield from _keys(below, f"{path}.{name}" if path else name)
        if isinstance(each.get("items"), dict) and "properties" in each["items"]:
            for name, below in each["items"]["properties"].items():
                yield from _keys(below, f"{path}[].{name}")


def _type(part: Mapping[str, Any]) -> str:
    options = part.get("anyOf", [part])
    return " or ".join(
        dict.fromkeys(
            "ratio" if each.get("x-unit") == "ratio" else str(each.get("type", "any"))
            for each in options
        )
    )


def _environment() -> Iterator[str]:
    yield (
        "Standard output is the result and nothing else; progress, warnings and what was written "
        "go to standard error. No command prompts. With `--json`, and `check --format json`, an "
        "error is JSON on standard output, too: [its keys](json.md#error-json)."
    )
    yield table(["exit code", "meaning"], ((str(c), prose(t)) for c, t in EXIT_CODES.items()))
    yield "## Environment variables"
    yield table(["variable", "meaning"], ((code(n), t) for n, t in ENVIRONMENT.items()))


def _python() -> Iterator[str]:
    yield (
        "Import every name from `batchstat`. `import batchstat` loads NumPy at most; what is "
        "heavier loads on first use, and torch never. What a command can do, its function can do."
    )
    names = [name for name in batchstat.__all__ if not name.startswith("_")]
    for name in sorted(names, key=str.lower):
        kind = "class" if isinstance(getattr(batchstat, name), type) else "function"
        kind = "exception" if name.endswith("Error") else kind
        directive = f".. auto{kind}:: batchstat.{name}"
        if kind == "class":
            directive += "\n   :members:"
        yield f"## {name}"
        yield f"```{{eval-rst}}\n{directive}\n```"
        if name == "BatchSampler":
            yield "`batches()` yields these:"
            yield "```{eval-rst}\n.. autoclass:: batchstat.planning.rank_batches.Batch\n```"
