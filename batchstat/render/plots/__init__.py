"""Records as PNG pictures: file name to bytes."""

from batchstat.render.plots.balance import balance_plots
from batchstat.render.plots.buckets import bucket_plots
from batchstat.render.plots.comparison import comparison_plots
from batchstat.render.plots.profile import profile_plots
from batchstat.render.plots.ranks import rank_plots

__all__ = ["balance_plots", "bucket_plots", "comparison_plots", "profile_plots", "rank_plots"]
