"""The shape of the package: who may import whom, no circles, and what loads when."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import reference_commands
import typer

import batchstat
from batchstat.cli.main import app
from conftest import ROOT, SAMPLE_DATA, environment
from package_trees import PACKAGE, tree_of

# A room may import from itself and from the rooms that stand before it in this list.
LAYERS = [
    ["_version", "records", "hidden_secrets", "words"],
    ["errors"],
    ["parameters"],
    ["findings"],
    ["lengths"],
    ["storage"],
    ["corpus"],
    ["tokenization"],
    ["profiling"],
    ["calibration", "planning"],
    ["applying"],
    ["recording"],
    ["documents"],
    ["training"],
    ["simulation"],
    ["trainers"],
    ["gate"],
    ["render"],
    ["cli"],
    ["__main__"],
]
MOST_LOOSE_FILES, MOST_FLOORS = 20, 8
"""Of a folder: modules that lie in it, and the longest way of imports through them; the recorder,
which imports nothing from outside, has ten.
"""
MOST_LINES, MOST_MODULES, MOST_COMMANDS, MOST_FLAGS = 58_486, 426, 13, 111
"""Of the package, with its prose and blank lines, and of its command line. They only go down: a
change that adds something says for whom, and by how much they may rise.
"""
PURE = ["errors", "_version", "records", "lengths", "parameters", "planning"]
RECORDER, APPLYING = "batchstat.recording.recorder", "batchstat.applying"
ALGORITHMS = "batchstat.planning.algorithms"
"""Packages that are loaded by their place in the process that trains; of the last, `PLANNER`."""
PLANNER = [f"{ALGORITHMS}.{name}" for name in ("rank_loads", "step_batches", "step_cuts")]
HEAVY = {"numpy", "pandas", "pyarrow", "transformers", "tokenizers", "matplotlib", "rich", "torch"}


@cache
def modules() -> dict[str, ast.Module]:
    """The modules of the package; not parsed while tests are collected, which each worker does."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = tree_of(path)
        for package in (RECORDER, APPLYING, ALGORITHMS):
            if name.startswith(f"{package}."):
                found[name] = with_absolute_imports(path, package)
    return found


def with_absolute_imports(path: Path, package: str) -> ast.Module:
    """The recorder is loaded by its place, as another package, where batchstat is not installed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            node.module, node.level = f"{package}.{node.module}", 0
    return tree


@cache
def imports(tree: ast.Module, *, at_load: bool, typing: bool = True) -> set[str]:
    """What a module imports: all of it, or only what runs while it loads; `typing` for what is
    imported for annotations alone, which does not run.
    """
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if at_load and isinstance(child, ast.FunctionDef | ast.Lambda):
                continue
            is_typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            if is_typing and (at_load or not typing):
                continue
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, "imports are absolute"
                found.update(f"{child.module}.{alias.name}" for alias in child.names)
            visit(child)

    visit(tree)
    return found


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


@cache
def imported(module: str, *, typing: bool) -> frozenset[str]:
    """The modules of the package that a module imports, anywhere in it; not `batchstat` itself."""
    names = imports(modules()[module], at_load=False, typing=typing)
    own = {name if name in modules() else name.rpartition(".")[0] for name in names}
    return frozenset((own & modules().keys()) - {module, "batchstat"})


def test_every_room_has_a_layer():
    assert {room(name) for name in modules()} - {""} == {name for layer in LAYERS for name in layer}


def test_imports_point_down():
    """Into rooms of a lower layer, and into the module that defines the name."""
    depth = {name: level for level, layer in enumerate(LAYERS) for name in layer}
    found = [
        f"{module} imports {name}"
        for module in modules().keys() - {"batchstat"}
        for name in imports(modules()[module], at_load=False)
        if name.startswith("batchstat.") and room(name) != room(module)
        if depth[room(name)] >= depth[room(module)]
    ]
    assert found == []


def test_only_users_import_the_package_itself():
    """Its names are of all rooms: a module that takes one from it, even inside a function, reaches
    up, past the modules that the other tests see.
    """

    def is_face(node: ast.AST) -> bool:
        if isinstance(node, ast.ImportFrom):
            below = {f"batchstat.{alias.name}" for alias in node.names}
            return node.module == "batchstat" and not below <= modules().keys()
        is_import = isinstance(node, ast.Import)
        # `import batchstat.words` gives the name `batchstat`, too.
        return is_import and any(each.name.split(".")[0] == "batchstat" for each in node.names)

    found = [
        f"{module}, line {node.lineno}"
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if is_face(node)
    ]
    assert found == []


def test_folders_stay_small(capsys):
    """A reader sees at once where a line of code belongs."""
    folders: dict[str, list[str]] = {}
    for module in modules():
        if (PACKAGE.parent / module.replace(".", "/")).with_suffix(".py").is_file():
            folders.setdefault(module.rpartition(".")[0], []).append(module)
    graph = {module: imported(module, typing=False) for module in modules()}

    @cache
    def floors(module: str) -> int:
        folder = folders[module.rpartition(".")[0]]
        return 1 + max((floors(each) for each in graph[module] if each in folder), default=0)

    found = {folder: max(map(floors, each)) for folder, each in folders.items()}
    with capsys.disabled():
        loose = max(map(len, folders.values()))
        print(f" {len(LAYERS)} layers, {loose} files, {max(found.values())} floors ", end="")
    assert {k: len(v) for k, v in folders.items() if len(v) > MOST_LOOSE_FILES} == {}
    assert found.pop(RECORDER) <= 10
    assert {k: v for k, v in found.items() if v > MOST_FLOORS} == {}


def test_what_is_added_makes_the_whole_smaller(capsys):
    paths = list(PACKAGE.rglob("*.py"))
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in paths)
    commands = dict(reference_commands.named(typer.main.get_command(app)))
    options = [option for command in commands.values() for option in command.params]
    flags = {flag for option in options for flag in option.opts if flag.startswith("--")}
    sizes = lines, len(paths), len(commands), len(flags)
    with capsys.disabled():
        print(" {:,} lines, {} modules, {} commands, {} flags ".format(*sizes), end="")
    most = MOST_LINES, MOST_MODULES, MOST_COMMANDS, MOST_FLAGS
    assert all(size <= limit for size, limit in zip(sizes, most, strict=True)), (sizes, most)


def test_private_functions_have_a_paragraph_of_docstring_at_most():
    """None where their code has four lines or fewer: that is as quickly read."""
    found = []
    for name, tree in modules().items():
        for node in ast.walk(tree):
            is_private = isinstance(node, ast.FunctionDef) and node.name.lstrip("_") != node.name
            if is_private and not node.name.endswith("__") and (text := ast.get_docstring(node)):
                code = sum(each.end_lineno - each.lineno + 1 for each in node.body[1:])
                if "\n\n" in text or 0 < code <= 4:
                    found.append(f"{name}.{node.name}")
    assert found == []


REGISTRIES = {
    "batchstat",
    "batchstat.corpus.formats",
    "batchstat.planning.samplers",
    "batchstat.profiling.executors",
    "batchstat.tokenization.builtin",
}


def test_package_faces_are_empty_or_registries():
    for path in PACKAGE.rglob("__init__.py"):
        name = ".".join(path.parent.relative_to(ROOT).parts)
        statements = modules()[name].body
        if name not in REGISTRIES:
            assert len(statements) == 1, f"{name} holds more than its docstring"


def test_what_runs_in_the_training_stands_alone():
    """In the grammar of Python 3.8, on the standard library: batchstat is not where it runs."""
    own = [name for name in modules() if name.startswith((f"{RECORDER}.", f"{APPLYING}."))]
    assert len(own) > 20
    # It loads these by their place, too; a planner is of NumPy.
    for name in [*own, "batchstat.hidden_secrets", *PLANNER]:
        path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
        for imported in imports(modules()[name], at_load=True):
            top = imported.partition(".")[0]
            is_own = imported.startswith((f"{RECORDER}.", f"{APPLYING}."))
            if name in PLANNER:
                is_own = top == "numpy" or imported.rpartition(".")[0] in PLANNER
            assert is_own or top in sys.stdlib_module_names, imported
        # Annotations are not evaluated; what is cannot be subscripted before Python 3.9.
        for node in ast.walk(_Unannotated().visit(ast.parse(path.read_text(encoding="utf-8")))):
            if isinstance(node, ast.Subscript):
                assert ast.unparse(node.value) not in ("dict", "list", "set", "tuple", "type"), name


class _Unannotated(ast.NodeTransformer):
    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return node.value


def packages_run(module: str, others: frozenset[str]) -> set[str]:
    """The packages whose `__init__.py` runs before other modules do, without the module's own."""
    above = {parent for each in others for parent in modules() if each.startswith(f"{parent}.")}
    return {parent for parent in above if not f"{module}.".startswith(f"{parent}.")}


def test_no_circles():
    """Not even of imports inside functions; those for annotations alone do not count."""
    done: set[str] = set()

    def walk(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if module not in done:
            others = imported(module, typing=False)
            for other in sorted(others | packages_run(module, others)):
                walk(other, (*path, module))
            done.add(module)

    for module in modules():
        walk(module, ())


def test_planning_is_pure_numpy():
    allowed = {"batchstat", "numpy", *sys.stdlib_module_names}
    found = [
        f"{module} imports {name}"
        for module in modules()
        if room(module) in PURE
        for name in imports(modules()[module], at_load=True)
        if name.split(".")[0] not in allowed
    ]
    assert found == []


def test_typer_stays_where_it_is_used():
    allowed = {"typer": {"cli"}}
    found = [
        f"{module} imports {name}"
        for module in modules()
        for name in imports(modules()[module], at_load=False)
        if room(module) not in allowed.get(name.split(".")[0], {room(module)})
    ]
    assert found == []


def loaded_by(code: str) -> set[str]:
    program = f"import sys; {code}; print(*{{name.split('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.splitlines()[-1].split())


def test_import_batchstat_loads_at_most_numpy():
    assert not loaded_by("import batchstat") & (HEAVY - {"numpy"})


def test_a_batch_plan_needs_only_numpy():
    assert not loaded_by("from batchstat import BatchPlan, Settings") & (HEAVY - {"numpy"})


def test_the_samplers_need_no_torch_and_no_pandas():
    code = "import batchstat as b; list(b.BatchSampler([5, 6])); list(b.RankSampler([5], 0, 1))"
    assert not loaded_by(code) & (HEAVY - {"numpy"} | {"typer", "pydantic"})


@pytest.mark.parametrize("library", ["huggingface", "lightning"])
def test_the_integrations_load_what_they_need_when_called(library):
    loaded = loaded_by(f"import batchstat.training.integrations.{library}")
    assert not loaded & (HEAVY - {"numpy"} | {"accelerate", "lightning"})


def test_the_command_line_loads_only_typer():
    assert not loaded_by("import batchstat.cli.main") & (HEAVY - {"rich"})
    assert not loaded_by("import batchstat.cli.main") - loaded_by("import typer") & HEAVY


def loaded_by_command(*arguments: str, folder: Path) -> set[str]:
    """The modules that a command has loaded when it ends."""
    program = (
        "import atexit, sys; from batchstat.__main__ import main; "
        "atexit.register(lambda: print(*sys.modules, sep=chr(10), file=sys.stderr)); main()"
    )
    command = [sys.executable, "-c", program, *arguments, "--count-cache", str(folder / "cache")]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment())
    assert result.returncode == 0, result.stderr
    return set(result.stderr.splitlines())


CORPUS = str(SAMPLE_DATA / "corpus.txt")
CHECK = ("check", CORPUS, "--max-padding", "90%")


def test_counting_text_does_not_load_pandas(tmp_path):
    loaded = loaded_by_command(*CHECK, folder=tmp_path)
    assert "batchstat.corpus.reader" in loaded
    assert "pandas" not in loaded


@pytest.mark.parametrize("command", [CHECK, ("profile", CORPUS, "--no-plots")])
def test_what_is_cached_is_not_read(command, tmp_path, run):
    assert run(*command, "--count-cache", tmp_path / "cache").returncode == 0
    loaded = loaded_by_command(*command, folder=tmp_path)
    assert "batchstat.profiling.worker" in loaded
    unused = {
        *("batchstat.corpus.reader", "batchstat.corpus.formats", "batchstat.profiling.counting"),
        *("pyarrow.compute", "pandas", "matplotlib", "transformers", "pydantic"),
        *("concurrent.futures.process", "multiprocessing", "webbrowser", "xml.etree.ElementTree"),
    }
    assert not loaded & unused


def test_documents_need_no_library():
    code = "from batchstat.documents.schema import FILES, schema; [schema(each) for each in FILES]"
    assert not loaded_by(code) & (HEAVY - {"numpy", "pyarrow"} | {"pydantic"})


def test_the_builtin_tokenizer_does_not_load_transformers():
    loaded = loaded_by(
        "from batchstat.tokenization.loading.load import load_tokenizer; load_tokenizer('builtin')"
    )
    assert "transformers" not in loaded


def test_all_public_names_are_there():
    for name in batchstat.__all__:
        assert getattr(batchstat, name) is not None
    assert set(dir(batchstat)) >= set(batchstat.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = batchstat.nothing


def test_the_top_level_is_as_agreed():
    result = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        pytest.skip("not a git checkout")
    top = {Path(line).parts[0] for line in result.stdout.splitlines()}
    named = {"pyproject.toml", "batchstat", "docs", "tests", "sample_data", "README.md"}
    assert {name for name in top if not name.startswith(".")} <= named | {
        "LICENSE",
        "action.yml",  # where GitHub looks for it
        "CHANGELOG.md",
        "CONTRIBUTING.md",
    }
