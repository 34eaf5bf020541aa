"""Experiments with models: comparisons of kinds, probes, other people's benchmarks. The pipeline needs none of them."""
