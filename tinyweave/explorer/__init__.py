"""The explorer: a web page with sliders for a network and its plan, which shows the planned RAM."""
