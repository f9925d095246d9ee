"""Wire formats of all venues: JSON read record by record, columns typed all at once, objects that do not fit set aside."""
