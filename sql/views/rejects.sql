-- One row per object of a venue that was rejected, with the reason and the object itself: from days, the list of series and the archive, each once.
SELECT DISTINCT ON (venue, "table", request, page, ordinal, reason) *
FROM (
    FROM raw.kalshi_rejects
    UNION ALL BY NAME
    FROM raw.kalshi_series_rejects
    UNION ALL BY NAME
    FROM raw.kalshi_archive_rejects
    UNION ALL BY NAME
    FROM raw.polymarket_rejects
)
