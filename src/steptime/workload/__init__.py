"""Workloads: what a model computes in one step, as a table of operators."""
