"""Rewrite attention heads so that fused stages compute them row by row."""
