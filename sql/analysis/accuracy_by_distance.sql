-- One row per forecaster and distance from its knowledge cutoff to the resolution on the release $release: accuracy and Brier score with the
-- 95 % interval, and the number of questions. Better scores close to the cutoff suggest remembered outcomes.
SELECT
    forecaster,
    substr(scope, length('distance:') + 1) AS distance,
    max("value") FILTER (metric = 'accuracy') AS accuracy,
    max("lower") FILTER (metric = 'accuracy') AS accuracy_lower,
    max("upper") FILTER (metric = 'accuracy') AS accuracy_upper,
    max("value") FILTER (metric = 'brier') AS brier,
    max("lower") FILTER (metric = 'brier') AS brier_lower,
    max("upper") FILTER (metric = 'brier') AS brier_upper,
    max(n) FILTER (metric = 'brier') AS n
FROM benchmark.scores
WHERE release = $release AND starts_with(scope, 'distance:')
GROUP BY forecaster, scope
ORDER BY forecaster, TRY_CAST(regexp_extract(scope, '[0-9]+') AS INTEGER), NOT starts_with(scope, 'distance:<')
