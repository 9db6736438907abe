"""The PyTorch part of a search: networks as modules, their training, and zero-cost proxies.

Other packages import it inside functions only, so that they work without PyTorch.
"""
