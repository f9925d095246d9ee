-- One row per forecaster of the release $release, best Brier score first, with its interval or the reason for its absence, its skill
-- against the market with its interval, its calibration error and that of a calibrated forecaster, and its coverage of the release. Forecasters below the coverage floor have no rank and come last.
SELECT
    rank,
    forecaster,
    kind,
    round(brier, 4) AS brier,
    round(brier_lower, 4) AS brier_lower,
    round(brier_upper, 4) AS brier_upper,
    brier_reason,
    round(skill_vs_market, 4) AS skill_vs_market,
    round(skill_vs_market_lower, 4) AS skill_vs_market_lower,
    round(skill_vs_market_upper, 4) AS skill_vs_market_upper,
    round(ece, 4) AS ece,
    round(ece_expected, 4) AS ece_expected,
    round(ece_p_calibrated, 4) AS ece_p_calibrated,
    n,
    coverage,
    n_clusters
FROM benchmark.leaderboard
WHERE release = $release
ORDER BY rank NULLS LAST, forecaster
