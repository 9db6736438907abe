"""The explorer: a local web page with sliders for a network and its planner options, which shows the planned RAM."""
