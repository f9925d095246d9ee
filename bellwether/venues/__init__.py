"""Wire formats of the venues, parsed into the typed tables of the lake."""
