"""The PyTorch part of a search: networks as modules, and their training; imported inside functions only."""
