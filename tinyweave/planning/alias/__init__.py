"""Aliases: which tensors share memory."""
