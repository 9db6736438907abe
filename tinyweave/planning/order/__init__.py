"""The order of ops with the least peak RAM."""
