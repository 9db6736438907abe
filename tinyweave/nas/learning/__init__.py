"""Networks of a search in PyTorch: their modules, and how they are trained. Imported only where something is trained."""
