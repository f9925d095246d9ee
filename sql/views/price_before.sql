-- One row per question of a release that had a price `hours` before its market closed: the last price known by then, the middle of bid and ask, else
-- the last trade. A macro: FROM views.price_before(24).
SELECT
    questions.release,
    questions.question_id,
    questions.venue,
    questions.market_id,
    questions.category,
    prices."at" AS price_at,
    CAST(coalesce((prices.bid + prices.ask) / 2, prices.last) AS DOUBLE) AS price,
    questions.outcome,
    questions.outcome_yes
FROM (SELECT *, close_time - to_seconds(3600 * CAST(hours AS DOUBLE)) AS asked_at FROM views.questions) AS questions
ASOF JOIN (
    SELECT *
    FROM clean.prices
    WHERE coalesce((bid + ask) / 2, last) IS NOT NULL
) AS prices
    ON prices.venue = questions.venue AND prices.market_id = questions.market_id AND prices."at" <= questions.asked_at
