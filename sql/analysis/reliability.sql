-- One row per bin of the reliability diagram of $forecaster on the release $release: the mean forecast and the share of yes.
-- `calibrated` is true when the mean forecast lies inside the 95 % interval of the observed rate; null without an interval.
SELECT
    bin,
    lower_edge,
    upper_edge,
    n,
    n_clusters,
    mean_forecast,
    yes_rate,
    yes_rate_lower,
    yes_rate_upper,
    mean_forecast BETWEEN yes_rate_lower AND yes_rate_upper AS calibrated
FROM benchmark.reliability
WHERE release = $release AND forecaster = $forecaster
ORDER BY bin
