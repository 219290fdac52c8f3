"""Batch samplers that yield exactly the batches that were simulated."""
