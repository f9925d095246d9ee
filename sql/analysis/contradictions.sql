-- One row per language model of the release $release, the most contradictory first: the number of its answers that contradict themselves,
-- that come from a repair request, and that the published KalshiBench parser reads differently, and its Brier score by that parser.
WITH answers AS (
    SELECT
        forecasts.forecaster,
        forecasts.contradiction,
        forecasts.repaired,
        forecasts.p_yes,
        forecasts.p_yes_compat,
        CAST(questions.ground_truth = 'yes' AS INTEGER) AS outcome
    FROM benchmark.forecasts
    JOIN benchmark.questions ON questions.release = $release AND questions.id = forecasts.question_id
    WHERE forecasts.release = $release AND forecasts.attempts IS NOT NULL AND NOT forecasts.could_know
)
SELECT
    forecaster,
    count(*) AS answers,
    count(contradiction) AS contradictions,
    count(contradiction) / count(*) AS share,
    count(*) FILTER (repaired) AS repaired,
    count(*) FILTER (abs(p_yes - p_yes_compat) > 1e-9) AS read_otherwise,
    avg((p_yes - outcome) ** 2) FILTER (p_yes_compat IS NOT NULL) AS brier,
    avg((p_yes_compat - outcome) ** 2) FILTER (p_yes IS NOT NULL) AS brier_compat
FROM answers
GROUP BY forecaster
ORDER BY share DESC, forecaster
