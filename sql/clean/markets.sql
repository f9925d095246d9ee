-- One row is one market of either venue whose day lies between $first_day and $last_day, with its outcome or the reason why it has none.
--
-- Inputs: kalshi_markets, kalshi_archive, kalshi_events, kalshi_series, polymarket_markets, polymarket_events (tables raw/...),
-- resolutions (clean/resolutions); those of a venue may be empty. Only rows of the requested days are used, and a
-- market is joined to its event of the same day, so that a range gives the same rows as its single days.
--
-- Kalshi
-- Day: the UTC day of the close.
-- Identity: a ticker has one row per day. Of several records (live and archived) the latest known one is used, then the latest
-- updated one, then a final one.
-- Question: the market's title, else the event's title and the meaning of YES. The meaning of YES is added to the
-- title if the title alone does not identify the market: another market of the event has the same title, or it is the
-- event's title.
-- Outcome: yes or no once the market is paid out, and only then; a determined result can still be disputed. A pay-out
-- that contradicts the result leaves the outcome unknown.
-- known_at: the latest of the facts used: market, event, and series if the category is the series'.
--
-- Polymarket
-- Day: the UTC day of the scheduled end. close_time: the scheduled end; of a market that was resolved before it, two hours before
-- the actual close. Such a market closes on resolution, and UMA's proposals are public at least two hours before: no price after the
-- answer was known counts as a forecast.
-- Question: as on Kalshi, with the title that the market has within its group. For a market with two named outcomes the question
-- is about the first, whose name is added and which yes means. Markets with more than two outcomes are not yes-or-no questions.
-- Outcome: the resolution in clean/resolutions.
-- Clusters: the event's series, else the event. Category: the first of the categories below with a matching tag, under
-- Kalshi's name, else the old category of the event or the market.
WITH kalshi_records AS (
    SELECT * FROM kalshi_markets WHERE day BETWEEN $first_day AND $last_day
    UNION ALL BY NAME
    SELECT * FROM kalshi_archive WHERE day BETWEEN $first_day AND $last_day
),

kalshi_latest AS (
    SELECT
        * EXCLUDE (title, yes_sub_title, event_ticker, status, result),
        nullif(trim(title, e' \t\r\n'), '') AS title,
        nullif(trim(yes_sub_title, e' \t\r\n'), '') AS yes_sub_title,
        nullif(event_ticker, '') AS event_ticker,
        CASE WHEN status = 'finalized' THEN 'settled' ELSE status END AS status,
        lower(trim(result)) AS result
    FROM kalshi_records
    QUALIFY row_number() OVER (
        PARTITION BY day, ticker
        ORDER BY known_at DESC, updated_at DESC NULLS LAST, (kalshi_records.status = 'finalized') DESC, source, sha256(body)
    ) = 1
),

kalshi_joined AS (
    SELECT
        latest.*,
        nullif(event.series_ticker, '') AS series_id,
        nullif(trim(event.title, e' \t\r\n'), '') AS event_title,
        nullif(trim(series.category), '') AS series_category,
        nullif(trim(event.category), '') AS event_category,
        event.mutually_exclusive,
        event.known_at AS event_known_at,
        series.known_at AS series_known_at,
        count(*) OVER (PARTITION BY latest.day, latest.event_ticker, lower(latest.title)) > 1
            OR lower(latest.title) = lower(trim(event.title, e' \t\r\n')) AS is_shared_title,
        CASE
            WHEN latest.status = 'disputed' THEN 'disputed'
            WHEN latest.status <> 'settled' THEN 'undetermined'
            WHEN latest.result IN ('scalar', 'void') THEN latest.result
            WHEN lower(latest.market_type) = 'scalar' THEN 'scalar'
            WHEN latest.result NOT IN ('yes', 'no') THEN 'unknown result'
            WHEN latest.settlement_value <> (latest.result = 'yes')::INTEGER THEN 'unknown result'
        END AS outcome_reason
    FROM kalshi_latest AS latest
    LEFT JOIN kalshi_events AS event ON event.day = latest.day AND event.event_ticker = latest.event_ticker
    LEFT JOIN kalshi_series AS series ON series.series_ticker = event.series_ticker
),

polymarket_categories (category, slugs) AS (
    VALUES
        ('Mentions', ['mentions']),
        ('Climate and Weather', ['weather', 'climate', 'climate-and-weather', 'daily-temperature', 'hurricanes', 'earthquakes']),
        ('Elections', ['elections', 'us-elections', 'global-elections', 'world-elections', 'primaries']),
        ('Sports', ['sports', 'esports', 'nba', 'nfl', 'mlb', 'nhl', 'ncaa', 'soccer', 'tennis', 'golf', 'cricket', 'ufc', 'f1', 'chess']),
        ('Crypto', ['crypto', 'crypto-prices', 'bitcoin', 'ethereum', 'solana', 'airdrops', 'up-or-down']),
        ('Economics', ['economy', 'economics', 'fed', 'fed-rates', 'inflation', 'macro-indicators', 'gdp', 'jobs-report']),
        ('Financials', ['finance', 'financials', 'stocks', 'indices', 'commodities', 'gold', 'oil', 'forex']),
        ('Science and Technology', ['tech', 'science', 'science-and-technology', 'ai', 'openai', 'space', 'big-tech']),
        ('Companies', ['business', 'companies', 'earnings', 'ipos', 'acquisitions', 'kpis']),
        ('Entertainment', ['entertainment', 'culture', 'pop-culture', 'movies', 'music', 'tv', 'television', 'awards', 'celebrities']),
        ('Health', ['health', 'public-health', 'coronavirus']),
        ('Politics', ['politics', 'us-politics', 'trump', 'congress', 'courts']),
        ('World', ['world', 'geopolitics', 'middle-east', 'ukraine', 'israel', 'china', 'foreign-policy', 'diplomacy']),
        ('Education', ['education', 'universities']),
        ('Transportation', ['transportation', 'airlines', 'airports']),
        ('Social', ['social', 'social-media', 'twitter', 'tweet-markets'])
),

polymarket_ranked AS (
    SELECT category, slugs, row_number() OVER () AS rank FROM polymarket_categories
),

polymarket_joined AS (
    SELECT
        market.*,
        nullif(trim(market.question, e' \t\r\n'), '') AS title,
        nullif(trim(market.group_item_title, e' \t\r\n'), '') AS group_title,
        coalesce(event.series_slug, market.series_slug) AS series_of_event,
        nullif(trim(coalesce(event.category, market.category)), '') AS old_category,
        CASE WHEN len(event.tags) > 0 THEN event.tags ELSE market.tags END AS all_tags,
        coalesce(event.neg_risk, market.neg_risk) AS mutually_exclusive,
        event.known_at AS event_known_at,
        verdict.known_at AS verdict_known_at,
        coalesce(verdict.status, CASE WHEN market.closed THEN 'closed' ELSE 'active' END) AS status,
        verdict.winner,
        verdict.settlement_value,
        CASE WHEN verdict.winner IS NULL THEN coalesce(verdict.outcome_reason, 'undetermined') END AS reason,
        verdict.settled_at,
        len(market.outcomes) = 2 AS is_pair,
        lower(trim(market.outcomes[2])) = 'yes' AND market.market_type = 'binary' AS is_turned,
        count(*) OVER (PARTITION BY market.day, market.event_id, lower(trim(market.question, e' \t\r\n'))) > 1
            OR lower(trim(market.question, e' \t\r\n')) = lower(trim(coalesce(event.title, market.event_title), e' \t\r\n'))
            AS is_shared_title
    FROM polymarket_markets AS market
    LEFT JOIN polymarket_events AS event ON event.day = market.day AND event.event_id = market.event_id
    LEFT JOIN resolutions AS verdict
        ON verdict.day = market.day
        AND verdict.venue = 'polymarket'
        AND verdict.market_id = market.market_id
    WHERE market.day BETWEEN $first_day AND $last_day
),

polymarket_named AS (
    SELECT
        *,
        CASE
            WHEN group_title IS NOT NULL AND is_shared_title AND lower(group_title) <> lower(title) THEN title || ' — ' || group_title
            ELSE title
        END AS full_title,
        (
            SELECT known.category
            FROM polymarket_ranked AS known
            WHERE list_has_any(known.slugs, list_transform(all_tags, lambda tag: lower(tag)))
            ORDER BY known.rank
            LIMIT 1
        ) AS tag_category,
        CASE WHEN is_turned THEN 1 - last_trade_price ELSE last_trade_price END AS last_price
    FROM polymarket_joined
)

SELECT
    day,
    'kalshi' AS venue,
    ticker AS market_id,
    event_ticker AS event_id,
    series_id,
    coalesce(series_category, event_category, 'unknown') AS category,
    CASE
        WHEN yes_sub_title IS NULL THEN coalesce(title, event_title)
        WHEN title IS NULL THEN event_title || ' — ' || yes_sub_title
        WHEN is_shared_title AND lower(yes_sub_title) NOT IN ('yes', lower(title)) THEN title || ' — ' || yes_sub_title
        ELSE title
    END AS question,
    nullif(
        concat_ws(
            e'\n\n',
            nullif(trim(rules_primary, e' \t\r\n'), ''),
            nullif(trim(rules_secondary, e' \t\r\n'), '')
        ),
        ''
    ) AS description,
    market_type,
    is_combo,
    mutually_exclusive,
    open_time,
    close_time,
    settled_at,
    status,
    CASE WHEN outcome_reason IS NULL THEN result END AS outcome,
    outcome_reason,
    settlement_value,
    last_price,
    volume,
    open_interest,
    source,
    greatest(known_at, event_known_at, CASE WHEN series_category IS NOT NULL THEN series_known_at END) AS known_at
FROM kalshi_joined

UNION ALL BY NAME

SELECT
    day,
    'polymarket' AS venue,
    market_id,
    event_id,
    coalesce(series_of_event, event_id) AS series_id,
    coalesce(tag_category, old_category, 'unknown') AS category,
    CASE WHEN market_type = 'named' THEN full_title || ' — ' || outcomes[1] ELSE full_title END AS question,
    nullif(trim(description, e' \t\r\n'), '') AS description,
    CASE WHEN upper_bound > lower_bound THEN 'scalar' WHEN is_pair THEN 'binary' ELSE 'multi' END AS market_type,
    FALSE AS is_combo,
    mutually_exclusive,
    start_time AS open_time,
    CASE WHEN closed_at < end_time THEN closed_at - INTERVAL 2 HOURS ELSE end_time END AS close_time,
    settled_at,
    status,
    CASE WHEN winner IS NOT NULL AND settlement_value = 1 THEN 'yes' WHEN winner IS NOT NULL AND settlement_value = 0 THEN 'no' END AS outcome,
    CASE WHEN winner IS NOT NULL AND NOT is_pair THEN 'several outcomes' ELSE reason END AS outcome_reason,
    settlement_value,
    -- Rounded to the table's decimals, but never onto 0 or 1, which the price was not.
    CASE WHEN last_price > 0 AND last_price < 1 THEN least(greatest(last_price, 0.000001), 0.999999) ELSE last_price END::DECIMAL(10, 6)
        AS last_price,
    volume::DECIMAL(30, 2) AS volume,
    NULL::DECIMAL(18, 2) AS open_interest,
    'live' AS source,
    greatest(known_at, event_known_at, verdict_known_at) AS known_at
FROM polymarket_named
ORDER BY day, venue, market_id
