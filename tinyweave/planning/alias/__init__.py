"""Which tensors share memory."""
