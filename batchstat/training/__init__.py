"""Batch samplers that yield the plan which was simulated."""
