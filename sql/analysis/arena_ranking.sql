-- One row per family and group, ordered by its rank in the metric $metric of arena.rankings, such as brier_size, log_loss or win_rate.
SELECT
    rank,
    family,
    value,
    "lower",
    "upper",
    letters,
    n,
    n_events,
    unranked_because,
    methodology,
    reconstructed,
    contaminated
FROM arena.rankings
WHERE metric = $metric
ORDER BY methodology, reconstructed, contaminated, rank NULLS LAST, family
