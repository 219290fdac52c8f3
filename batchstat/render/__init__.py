"""Records as something to look at or to parse: terminal, plots, JSON. Nothing is computed here."""
