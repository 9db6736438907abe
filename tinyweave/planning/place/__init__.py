"""Placement: an offset for every buffer."""
