-- One row per family: the change of a bet's price between prompt and fill, in dollars per share; positive if it rose.
WITH fills AS (
    SELECT
        agents.family,
        CAST(trades.price AS DOUBLE) AS fill,
        CAST(universe.prices[list_position([lower(name) FOR name IN universe.outcomes], lower(trades.side))] AS DOUBLE) AS shown
    FROM arena.trades AS trades
    JOIN arena.agents AS agents ON agents.agent_id = trades.agent_id
    JOIN arena.universe AS universe ON universe.week = trades.week AND universe.market_id = trades.market_id
    WHERE trades.action = 'BUY'
)
SELECT
    family,
    count(shown) AS fills,
    count(*) - count(shown) AS without_a_shown_price,
    avg(fill - shown) AS mean_drift,
    quantile_cont(fill - shown, 0.05) AS lowest_5_percent,
    quantile_cont(fill - shown, 0.95) AS highest_5_percent
FROM fills
GROUP BY family
ORDER BY family
