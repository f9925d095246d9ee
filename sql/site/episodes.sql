-- One row per episode: its first start, and the number of its markets and trades.
SELECT
    episode,
    any_value(title) AS title,
    any_value(venue) AS venue,
    min(start_at) AS start_at,
    count(*) AS markets,
    sum(trades) AS trades
FROM replay.episodes
GROUP BY episode
ORDER BY episode
