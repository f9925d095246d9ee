-- One row per forecaster of $release and set of questions (scope): all of them, by rank, and then each category, horizon and distance. A skill
-- against the market without an interval is left out, except for copies of the price.
WITH whole AS (
    SELECT * EXCLUDE (release, known_at, rules), 'all' AS scope
    FROM benchmark.leaderboard
    WHERE release = $release
),

parts AS (
    SELECT
        forecaster,
        scope,
        any_value(value) FILTER (metric = 'brier') AS brier,
        any_value(lower) FILTER (metric = 'brier') AS brier_lower,
        any_value(upper) FILTER (metric = 'brier') AS brier_upper,
        any_value(reason) FILTER (metric = 'brier') AS brier_reason,
        any_value(value) FILTER (metric = 'skill_vs_market') AS skill_vs_market,
        any_value(lower) FILTER (metric = 'skill_vs_market') AS skill_vs_market_lower,
        any_value(upper) FILTER (metric = 'skill_vs_market') AS skill_vs_market_upper,
        any_value(reason) FILTER (metric = 'skill_vs_market') AS skill_vs_market_reason,
        any_value(value) FILTER (metric = 'pool_weight') AS pool_weight,
        any_value(lower) FILTER (metric = 'pool_weight') AS pool_weight_lower,
        any_value(upper) FILTER (metric = 'pool_weight') AS pool_weight_upper,
        any_value(reason) FILTER (metric = 'pool_weight') AS pool_weight_reason,
        any_value(value) FILTER (metric = 'brier_skill') AS brier_skill,
        any_value(value) FILTER (metric = 'log_loss') AS log_loss,
        any_value(value) FILTER (metric = 'roc_auc') AS roc_auc,
        any_value(value) FILTER (metric = 'accuracy') AS accuracy,
        any_value(value) FILTER (metric = 'ece') AS ece,
        any_value(value) FILTER (metric = 'coverage') AS coverage,
        any_value(n) FILTER (metric = 'brier') AS n
    FROM benchmark.scores
    WHERE release = $release AND scope NOT IN ('all', 'could_know')
    GROUP BY forecaster, scope
),

-- The cost of a question is that of its samples, and unknown if that of one is.
questions AS (
    SELECT forecaster, question_id, CASE WHEN count(cost) = count(*) THEN sum(cost) END AS cost
    FROM benchmark.forecasts
    WHERE release = $release
    GROUP BY forecaster, question_id
),

costs AS (
    SELECT forecaster, CASE WHEN count(cost) = count(*) THEN avg(CAST(cost AS DOUBLE)) END AS cost
    FROM questions
    GROUP BY forecaster
),

models AS (
    SELECT forecaster, any_value(split_part(model, '/', 1)) AS provider, max(knowledge_cutoff) AS knowledge_cutoff
    FROM benchmark.forecasts
    WHERE release = $release
    GROUP BY forecaster
)

SELECT
    board.* REPLACE (
        CASE WHEN skill_vs_market_lower IS NOT NULL OR skill_vs_market = 0 THEN skill_vs_market END AS skill_vs_market
    ),
    costs.cost,
    models.provider,
    models.knowledge_cutoff
FROM (FROM whole UNION ALL BY NAME FROM parts) AS board
LEFT JOIN costs ON costs.forecaster = board.forecaster
LEFT JOIN models ON models.forecaster = board.forecaster
WHERE board.forecaster IN (SELECT forecaster FROM whole)
ORDER BY board.scope <> 'all', board.rank NULLS LAST, board.brier NULLS LAST, board.forecaster, board.scope
