-- One row per pair of families and metric whose difference is significant at 5 % after Holm's correction.
SELECT methodology, reconstructed, contaminated, metric, family, other, n AS cohort_weeks, difference, lower, upper, p_holm
FROM arena.pairs
WHERE p_holm <= 0.05
ORDER BY methodology, reconstructed, contaminated, metric, p_holm, family, other
