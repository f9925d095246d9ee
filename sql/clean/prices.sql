-- One row is one point-in-time price of a market whose day lies between $first_day and $last_day.
--
-- Inputs: kalshi_candles (raw/kalshi_candles), polymarket_prices (raw/polymarket_prices), markets (clean/markets of the same days).
--
-- Prices after the market's close are left out: they may reflect the outcome.
-- Kalshi: the book and the last trade at the end of a candle. If candles of several lengths end at the same instant, the
-- shortest is used.
-- Polymarket: a price without sides. The venue does not state whether it is a trade or the middle of the book; it is stored
-- as the last trade. Rounded to the table's decimals, but never onto 0 or 1, which it was not.
WITH kalshi AS (
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
),

polymarket AS (
    SELECT
        price.day,
        market.venue,
        market.market_id,
        price.at,
        price.period_minutes,
        NULL::DECIMAL(10, 6) AS bid,
        NULL::DECIMAL(10, 6) AS ask,
        CASE WHEN price.price > 0 AND price.price < 1 THEN least(greatest(price.price, 0.000001), 0.999999) ELSE price.price END::DECIMAL(10, 6)
            AS last,
        NULL::DECIMAL(18, 2) AS volume,
        NULL::DECIMAL(18, 2) AS open_interest,
        greatest(price.known_at, market.known_at) AS known_at
    FROM polymarket_prices AS price
    INNER JOIN markets AS market
        ON market.day = price.day
        AND market.venue = 'polymarket'
        AND market.market_id = price.market_id
    WHERE price.day BETWEEN $first_day AND $last_day
        AND price.at <= market.close_time
)

SELECT * FROM kalshi
UNION ALL BY NAME
SELECT * FROM polymarket
ORDER BY day, venue, market_id, "at"
