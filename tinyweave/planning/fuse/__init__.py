"""Fused stages: when their ops compute which rows, and how many rows are kept."""
