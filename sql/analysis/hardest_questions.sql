-- One row per question of the release $release, the twenty with the worst mean score first:
-- the mean Brier score over forecasters, the mean forecast and how far forecasters were apart.
WITH answers AS (
    SELECT question_id, forecaster, avg(p_yes) AS p_yes
    FROM benchmark.forecasts
    WHERE release = $release AND p_yes IS NOT NULL
    GROUP BY question_id, forecaster
)
SELECT
    questions.id,
    questions.category,
    questions.question,
    questions.ground_truth,
    count(*) AS forecasters,
    avg(answers.p_yes) AS mean_forecast,
    stddev_pop(answers.p_yes) AS spread,
    avg((answers.p_yes - CAST(questions.ground_truth = 'yes' AS INTEGER)) ** 2) AS mean_brier
FROM answers
JOIN benchmark.questions ON questions.release = $release AND questions.id = answers.question_id
GROUP BY ALL
ORDER BY mean_brier DESC, questions.id
LIMIT 20
