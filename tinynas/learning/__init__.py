"""The PyTorch part of a search: networks as modules, their training, and zero-cost proxies.

Other modules import it inside functions only, so that they can be imported without PyTorch.
"""
