"""The PyTorch part of a search: networks as modules, and their training.

Other modules import it inside functions only, so that they can be imported without PyTorch.
"""
