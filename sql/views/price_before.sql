-- One row per question of a release whose market had a price `hours` before it closed, by its last record until then and after its opening: the middle of
-- bid and ask if both exist and do not cross, else the last trade. A record with neither gives no price, regardless of earlier ones. price_1h, price_6h,
-- price_24h and price_7d of benchmark.questions follow the same rule. A macro: FROM views.price_before(24).
SELECT
    questions.release,
    questions.question_id,
    questions.venue,
    questions.market_id,
    questions.category,
    prices."at" AS price_at,
    CAST(coalesce(CASE WHEN prices.bid <= prices.ask THEN (prices.bid + prices.ask) / 2 END, prices.last) AS DOUBLE) AS price,
    questions.outcome,
    questions.outcome_yes
FROM (SELECT *, close_time - to_seconds(3600 * CAST(hours AS DOUBLE)) AS asked_at FROM views.questions) AS questions
ASOF JOIN clean.prices AS prices
    ON prices.venue = questions.venue AND prices.market_id = questions.market_id AND prices."at" <= questions.asked_at
WHERE
    coalesce(prices."at" >= questions.open_time, true)
    AND (prices.bid <= prices.ask OR prices.last IS NOT NULL)
