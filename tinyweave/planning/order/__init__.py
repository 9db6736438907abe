"""The order in which ops run, for the least peak RAM."""
