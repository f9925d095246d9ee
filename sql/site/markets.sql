-- One row per market of a question of $release: its state at the venue.
SELECT
    questions.id,
    markets.status,
    markets.outcome,
    markets.settlement_value,
    markets.last_price,
    markets.volume,
    markets.known_at
FROM clean.markets
JOIN benchmark.questions ON questions.source = markets.venue AND questions.market_id = markets.market_id
WHERE questions.release = $release
ORDER BY questions.id
