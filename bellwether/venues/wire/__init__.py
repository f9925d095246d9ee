"""What all venues' wire formats have in common: JSON read record by record, columns typed all at once, objects that do not fit set aside."""
