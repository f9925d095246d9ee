-- One row per family and group: its Brier score minus that of the price on the same bets (below 0 is better), its return, both Brier scores, and the skill over the price.
PIVOT (
    SELECT methodology, reconstructed, contaminated, family, baseline, metric, value, lower, upper, rank
    FROM arena.rankings
    WHERE metric IN ('brier_vs_price', 'return', 'brier_stated', 'brier_size', 'skill_price')
) ON metric IN ('brier_vs_price', 'return', 'brier_stated', 'brier_size', 'skill_price') USING first(value) AS value, first(lower) AS lower, first(upper) AS upper, first(rank) AS rank
GROUP BY methodology, reconstructed, contaminated, family, baseline
ORDER BY methodology, reconstructed, contaminated, brier_vs_price_rank NULLS LAST, family
