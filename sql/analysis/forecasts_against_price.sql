-- One row per forecaster of the release $release: its Brier score and that of the market's price $hours hours before the close, on the questions that
-- have both, and the relative improvement over the price's score (negative: worse). A price may be old; skill_vs_market in benchmark.scores leaves out
-- those older than a day. For intervals see benchmark.comparisons.
SELECT
    answers.forecaster,
    count(*) AS n,
    round(avg(answers.brier), 4) AS brier,
    round(avg((prices.price - prices.outcome_yes) ** 2), 4) AS brier_price,
    round(1 - avg(answers.brier) / nullif(avg((prices.price - prices.outcome_yes) ** 2), 0), 4) AS skill
FROM views.answers
JOIN views.price_before($hours) AS prices ON prices.release = answers.release AND prices.question_id = answers.question_id
WHERE answers.release = $release
GROUP BY answers.forecaster
ORDER BY brier, answers.forecaster
