"""Ops that normalise the values along the last axis: softmax, log_softmax, l2_normalization."""
