-- One row per price of the market of a question of $release up to its close: the middle of bid and ask, else the last trade.
SELECT
    questions.id,
    prices.at,
    coalesce((prices.bid + prices.ask) / 2, prices.last) AS price
FROM clean.prices
JOIN benchmark.questions ON questions.source = prices.venue AND questions.market_id = prices.market_id
WHERE questions.release = $release AND prices.at <= questions.close_time AND coalesce((prices.bid + prices.ask) / 2, prices.last) IS NOT NULL
ORDER BY questions.id, prices.at
