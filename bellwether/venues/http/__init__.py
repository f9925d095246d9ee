"""What all venues' HTTP interfaces have in common: calls, bounded repetition, listings page by page, verbatim pages stored once."""
