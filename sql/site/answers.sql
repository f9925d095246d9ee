-- One row per question and forecaster of $release, its samples combined as for scoring; the cost is unknown if that of any sample is.
WITH combined AS (
    SELECT
        question_id,
        forecaster,
        CASE WHEN any_value(combine) = 'median' THEN median(p_yes) ELSE avg(p_yes) END AS p_yes,
        CASE WHEN count(cost) = count(*) THEN CAST(sum(cost) AS DOUBLE) END AS cost,
        bool_or(could_know) AS could_know,
        count(*) AS samples,
        min(as_of) AS as_of,
        first(error ORDER BY sample) FILTER (error IS NOT NULL) AS error,
        bool_or(raw_response IS NOT NULL OR call_key IS NOT NULL) AS asked
    FROM benchmark.forecasts
    WHERE release = $release
    GROUP BY question_id, forecaster
)

SELECT
    combined.*,
    questions.question,
    questions.category,
    questions.ground_truth,
    questions.price_24h,
    pow(combined.p_yes - CAST(questions.ground_truth = 'yes' AS DOUBLE), 2) AS brier
FROM combined
LEFT JOIN benchmark.questions ON questions.release = $release AND questions.id = combined.question_id
ORDER BY combined.forecaster, questions.ordinal, combined.question_id
