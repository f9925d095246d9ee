-- One row per family and group: its stated Brier score with the interval, relative to the price, adjusted for difficulty, the skill over the price, and the return.
PIVOT (
    SELECT methodology, reconstructed, contaminated, family, metric, value, lower, upper, rank
    FROM arena.rankings
    WHERE imputation = 'none' AND metric IN ('brier_stated', 'brier_vs_price', 'brier_adjusted', 'skill_price', 'return')
) ON metric IN ('brier_stated', 'brier_vs_price', 'brier_adjusted', 'skill_price', 'return') USING first(value) AS value, first(lower) AS lower, first(upper) AS upper, first(rank) AS rank
GROUP BY methodology, reconstructed, contaminated, family
ORDER BY methodology, reconstructed, contaminated, brier_vs_price_rank NULLS LAST, family
