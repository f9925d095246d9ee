"""HTTP code shared by all venues: clients, bounded retries, paging, storage of verbatim pages, and pulls of days."""
