"""A page on which one turns a network's knobs and sees what it needs of RAM, planned for real."""
