"""Batches that are trained, as a plan with lengths: of a sampler, a loader or a run."""
