"""How long transfers take: parameters of links, their fit, and what overlaps of graphs cost."""
