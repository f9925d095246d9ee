-- One row per traded market, outcome and instant: the price by which its positions are valued. At most about 150 per outcome, always with the last.
WITH numbered AS (
    SELECT
        market_id,
        outcome,
        "at",
        CAST(price AS DOUBLE) AS price,
        row_number() OVER (PARTITION BY market_id, outcome ORDER BY "at" DESC) - 1 AS place,
        count(*) OVER (PARTITION BY market_id, outcome) AS size
    FROM arena.prices
    WHERE market_id IN (SELECT market_id FROM arena.positions)
)

SELECT market_id, outcome, "at", price
FROM numbered
WHERE place % CAST(ceil(size / 150) AS BIGINT) = 0
ORDER BY market_id, outcome, "at"
