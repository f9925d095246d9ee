-- One row per forecaster and kind of failure on the release $release, the most frequent first: the number of questions without
-- forecast because of it, their share of the release, the dollars spent on them, and one of the reasons.
WITH asked AS (
    SELECT count(*) AS questions
    FROM benchmark.questions
    WHERE release = $release
)
SELECT
    forecasts.forecaster,
    coalesce(forecasts.failure, 'other') AS failure,
    count(DISTINCT forecasts.question_id) AS questions,
    count(DISTINCT forecasts.question_id) / any_value(asked.questions) AS share,
    sum(forecasts.attempts) AS requests,
    sum(forecasts.cost) AS dollars,
    min(forecasts.error) AS one_reason
FROM benchmark.forecasts
CROSS JOIN asked
WHERE forecasts.release = $release AND forecasts.p_yes IS NULL
GROUP BY forecasts.forecaster, coalesce(forecasts.failure, 'other')
ORDER BY questions DESC, forecasts.forecaster, failure
