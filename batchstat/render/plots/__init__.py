"""Records as PNG pictures: file name to bytes."""

from batchstat.render.plots.comparison import comparison_plots
from batchstat.render.plots.profile import profile_plots

__all__ = ["comparison_plots", "profile_plots"]
