"""HTTP shared by all venues: calls, bounded retries, listings page by page, verbatim pages stored once, pulls of days."""
