-- One row per pair of forecasters of the release $release whose Brier scores differ significantly at 5 % after Holm's correction, the better
-- one first, the surest difference first.
SELECT
    CASE WHEN difference < 0 THEN forecaster ELSE other END AS better,
    CASE WHEN difference < 0 THEN other ELSE forecaster END AS worse,
    abs(difference) AS difference,
    CASE WHEN difference < 0 THEN -"upper" ELSE "lower" END AS difference_lower,
    CASE WHEN difference < 0 THEN -"lower" ELSE "upper" END AS difference_upper,
    p,
    p_holm,
    n,
    n_clusters
FROM benchmark.comparisons
WHERE release = $release AND p_holm <= 0.05
ORDER BY p_holm, better, worse
