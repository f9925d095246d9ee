-- One row is one Kalshi market that closed on a UTC day between $first_day and $last_day, with its outcome or why it
-- has none.
--
-- Inputs: kalshi_markets, kalshi_archive, kalshi_events, kalshi_series (tables raw/...). Only rows of the days asked for
-- are used, and a market meets its event on its own day, so that a range gives the same rows as its days one by one.
--
-- Identity: a ticker has one row a day. Of several records (live and archived) the one known last wins, then the one updated
-- last, then a final one.
-- Question: the market's title, else the event's title and what YES stands for. What YES stands for is added to the
-- title where the title alone does not say which market it is: another market of the event has it too, or it is the
-- event's own.
-- Outcome: yes or no once the market is paid out, and only then; a determined result can still be disputed. A pay-out
-- that contradicts the result leaves the outcome unknown.
-- known_at: the latest of the facts used: the market, its event, and the series where the category is the series'.
WITH records AS (
    SELECT * FROM kalshi_markets WHERE day BETWEEN $first_day AND $last_day
    UNION ALL BY NAME
    SELECT * FROM kalshi_archive WHERE day BETWEEN $first_day AND $last_day
),

latest AS (
    SELECT
        * EXCLUDE (title, yes_sub_title, event_ticker, status, result),
        nullif(trim(title, e' \t\r\n'), '') AS title,
        nullif(trim(yes_sub_title, e' \t\r\n'), '') AS yes_sub_title,
        nullif(event_ticker, '') AS event_ticker,
        CASE WHEN status = 'finalized' THEN 'settled' ELSE status END AS status,
        lower(trim(result)) AS result
    FROM records
    QUALIFY row_number() OVER (
        PARTITION BY day, ticker
        ORDER BY known_at DESC, updated_at DESC NULLS LAST, (records.status = 'finalized') DESC, source, sha256(body)
    ) = 1
),

joined AS (
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
    FROM latest
    LEFT JOIN kalshi_events AS event ON event.day = latest.day AND event.event_ticker = latest.event_ticker
    LEFT JOIN kalshi_series AS series ON series.series_ticker = event.series_ticker
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
FROM joined
ORDER BY day, market_id
