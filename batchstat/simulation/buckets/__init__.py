"""The search for bucket edges."""
