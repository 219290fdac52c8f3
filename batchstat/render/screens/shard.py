"""The screen of `profile --shard`."""

from rich.console import Group, RenderableType

from batchstat.errors import counted
from batchstat.profiling.shards import Shard
from batchstat.render.screens.layout import Line
from batchstat.render.text import corpus_name


def shard_screen(shard: Shard) -> RenderableType:
    """Return what `profile --shard` prints: the shard, its corpus, and the next command."""
    paths = [source.path for source in shard.sources]
    own = counted(len(shard.counted), "split")
    failed = f", {len(shard.failed):,} failed" if shard.failed else ""
    return Group(
        Line("corpus", corpus_name(paths)),
        Line("shard", f"{shard.spec}: {own} counted{failed}; the corpus has {len(shard.splits):,}"),
        Line("next", "batchstat merge FOLDER-OF-EACH-SHARD ... -o whole"),
    )
