-- One row per price of the market of a question of $release up to its close: the middle of bid and ask, else the last trade. At most about 120 per
-- market, always with the last.
WITH known AS (
    SELECT
        questions.id,
        prices."at",
        coalesce((prices.bid + prices.ask) / 2, prices.last) AS price
    FROM clean.prices
    JOIN benchmark.questions ON questions.source = prices.venue AND questions.market_id = prices.market_id
    WHERE questions.release = $release AND prices."at" <= questions.close_time
),

numbered AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY id ORDER BY "at" DESC) - 1 AS place,
        count(*) OVER (PARTITION BY id) AS size
    FROM known
    WHERE price IS NOT NULL
)

SELECT id, "at", price
FROM numbered
WHERE place % CAST(ceil(size / 120) AS BIGINT) = 0
ORDER BY id, "at"
