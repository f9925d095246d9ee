-- One row per question of a release, under the names of clean.markets: question_id, venue, market_id, series_id, outcome.
SELECT
    release,
    id AS question_id,
    source AS venue,
    market_id,
    event_id,
    series_ticker AS series_id,
    category,
    question,
    description,
    ground_truth AS outcome,
    CAST(ground_truth = 'yes' AS INTEGER) AS outcome_yes,
    open_time,
    close_time,
    settled_at,
    ordinal,
    version
FROM benchmark.questions
