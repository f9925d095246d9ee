-- One row per category: the numbers of closed markets, of binary outcomes and of events with one, and the share of yes.
SELECT
    category,
    count(*) AS markets,
    count(outcome) AS resolved,
    count(DISTINCT [venue, coalesce(event_id, market_id)]) FILTER (outcome IS NOT NULL) AS events,
    count(*) FILTER (outcome = 'yes') / nullif(resolved, 0) AS yes_rate
FROM clean.markets
WHERE NOT is_combo
GROUP BY category
ORDER BY markets DESC, category
