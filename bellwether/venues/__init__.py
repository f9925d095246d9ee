"""Wire formats of the venues, read into the typed tables of the lake."""
