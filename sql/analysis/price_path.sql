-- One row per price of the market $market_id on $venue, oldest first: bid, ask, their middle, the last trade, and the hours
-- until trading closed. The outcome is known only afterwards.
SELECT
    prices."at",
    round(date_diff('second', prices."at", markets.close_time) / 3600, 2) AS hours_to_close,
    prices.bid,
    prices.ask,
    (prices.bid + prices.ask) / 2 AS mid,
    prices.last,
    prices.volume,
    markets.outcome
FROM clean.prices
JOIN clean.markets ON markets.day = prices.day AND markets.venue = prices.venue AND markets.market_id = prices.market_id
WHERE prices.venue = $venue AND prices.market_id = $market_id
ORDER BY prices."at"
