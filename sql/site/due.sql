-- One row per market with open positions, the $most that close next: number of positions and their cost.
SELECT
    open.market_id,
    open.positions,
    open.cost,
    closing.closes_at
FROM (
    SELECT market_id, count(*) AS positions, sum(cost) AS cost
    FROM arena.positions
    WHERE status = 'open'
    GROUP BY market_id
) AS open
JOIN (SELECT market_id, max(closes_at) AS closes_at FROM arena.universe GROUP BY market_id) AS closing ON closing.market_id = open.market_id
ORDER BY closing.closes_at NULLS LAST, open.market_id
LIMIT $most
