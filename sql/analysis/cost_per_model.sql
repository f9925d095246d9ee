-- One row per language model evaluated on the release $release, the most expensive first: requests, tokens, dollars, dollars per forecast, and
-- the number of rows with an unknown price (not included in the dollars).
SELECT
    forecaster,
    count(p_yes) AS forecasts,
    sum(attempts) AS requests,
    sum(input_tokens) AS input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(reasoning_tokens) AS reasoning_tokens,
    sum(cost) AS dollars,
    CAST(sum(cost) AS DOUBLE) / nullif(count(p_yes), 0) AS dollars_per_forecast,
    count(*) FILTER (attempts > 0 AND cost IS NULL) AS rows_of_unknown_cost,
    quantile_cont(latency, 0.5) AS median_seconds
FROM benchmark.forecasts
WHERE release = $release AND attempts IS NOT NULL
GROUP BY forecaster
ORDER BY dollars DESC NULLS LAST, forecaster
