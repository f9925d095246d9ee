-- One row is one point-in-time price of a Kalshi market that closed on a UTC day between $first_day and $last_day: the
-- book and the last trade as they stood at the end of a candle.
--
-- Inputs: kalshi_candles (raw/kalshi_candles), markets (clean/markets of the same days).
--
-- A candle that ends after the market's close is left out: its closing values may already know the outcome.
-- Where candles of several lengths end at the same instant, the shortest stands.
SELECT
    candle.day,
    market.venue,
    market.market_id,
    candle.end_at AS at,
    candle.period_minutes,
    candle.yes_bid_close AS bid,
    candle.yes_ask_close AS ask,
    coalesce(candle.price_close, candle.price_previous) AS last,
    candle.volume,
    candle.open_interest,
    greatest(candle.known_at, market.known_at) AS known_at
FROM kalshi_candles AS candle
INNER JOIN markets AS market
    ON market.day = candle.day
    AND market.venue = 'kalshi'
    AND market.market_id = candle.ticker
WHERE candle.day BETWEEN $first_day AND $last_day
    AND candle.end_at <= market.close_time
QUALIFY row_number() OVER (
    PARTITION BY candle.day, candle.ticker, candle.end_at
    ORDER BY candle.period_minutes, candle.known_at DESC, candle.source
) = 1
ORDER BY candle.day, market.market_id, candle.end_at
