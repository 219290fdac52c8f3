"""Training scripts for a setting, as text."""
