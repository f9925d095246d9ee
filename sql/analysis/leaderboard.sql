-- One row per forecaster of the release $release, best Brier score first, with its interval, its skill against the market
-- and how much of the release it answered. Forecasters below the coverage floor have no rank and come last.
SELECT
    rank,
    forecaster,
    kind,
    round(brier, 4) AS brier,
    round(brier_lower, 4) AS brier_lower,
    round(brier_upper, 4) AS brier_upper,
    round(skill_vs_market, 4) AS skill_vs_market,
    round(ece, 4) AS ece,
    n,
    coverage,
    n_clusters
FROM benchmark.leaderboard
WHERE release = $release
ORDER BY rank NULLS LAST, forecaster
