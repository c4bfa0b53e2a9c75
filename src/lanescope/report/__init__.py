"""Reports: the page, plots, the picture of a machine, and notebook tables."""
