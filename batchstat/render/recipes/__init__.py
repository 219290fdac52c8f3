"""Lines for the user's training script and CI, as text."""
