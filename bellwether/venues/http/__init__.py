"""HTTP code shared by all venues: clients, retries, paging, storage of verbatim pages, and pulls of days."""
