"""batchstat check: which checks, what they are compared with, and how they are reported."""
