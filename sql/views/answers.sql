-- One row per question of a release and forecaster that forecast it: its samples combined as for scoring, the outcome, and the Brier
-- score. Questions whose outcome the forecaster could have known are left out.
WITH combined AS (
    SELECT
        release,
        forecaster,
        question_id,
        count(p_yes) AS samples,
        CASE WHEN any_value(combine) = 'median' THEN median(p_yes) ELSE avg(p_yes) END AS p_yes,
        min(as_of) AS as_of,
        sum(cost) AS cost
    FROM benchmark.forecasts
    WHERE p_yes IS NOT NULL AND NOT could_know
    GROUP BY release, forecaster, question_id
)
SELECT
    combined.release,
    combined.forecaster,
    combined.question_id,
    combined.p_yes,
    questions.outcome,
    questions.outcome_yes,
    (combined.p_yes - questions.outcome_yes) ** 2 AS brier,
    combined.samples,
    combined.cost,
    combined.as_of,
    questions.venue,
    questions.market_id,
    questions.event_id,
    questions.series_id,
    questions.category,
    questions.close_time
FROM combined
JOIN views.questions ON questions.release = combined.release AND questions.question_id = combined.question_id
