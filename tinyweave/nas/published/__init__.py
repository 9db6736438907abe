"""Published networks as architectures or layers of this project."""
