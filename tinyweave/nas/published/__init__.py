"""Networks that others have published, as architectures and layers of this project."""
