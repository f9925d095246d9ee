-- One row per forecaster and category of the release $release: its mean forecast, the share of yes, the gap between both, and the
-- Brier score with its 95 % interval, which is null where the category has too few clusters.
SELECT
    answers.forecaster,
    answers.category,
    count(*) AS n,
    round(avg(answers.p_yes), 4) AS mean_forecast,
    round(avg(answers.outcome_yes), 4) AS yes_rate,
    round(avg(answers.p_yes) - avg(answers.outcome_yes), 4) AS gap,
    round(avg(answers.brier), 4) AS brier,
    round(any_value(scores."lower"), 4) AS brier_lower,
    round(any_value(scores."upper"), 4) AS brier_upper
FROM views.answers
LEFT JOIN benchmark.scores
    ON scores.release = answers.release
    AND scores.forecaster = answers.forecaster
    AND scores.metric = 'brier'
    AND scores.scope = 'category:' || answers.category
WHERE answers.release = $release
GROUP BY answers.forecaster, answers.category
ORDER BY answers.forecaster, n DESC, answers.category
