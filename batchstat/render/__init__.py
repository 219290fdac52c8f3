"""Records as text, screens, plots, CI outputs and scripts."""
