-- One row is one forecaster's line on the leaderboard of a release, ranked by Brier score.
--
-- Inputs: scores (benchmark/scores), kinds (forecaster, kind: from the registry), standing (forecaster, "group", in_mcs, mcs_p: from the comparison
-- of all forecasters; empty if they were not compared).
-- Parameters: $floor, the minimum coverage for a rank; $min_clusters, the minimum number of clusters for a rank, and $few_clusters, the reason for no rank
-- below it; $questions_digest, of the release; $rules, of the scores.
--
-- Rows are the scores over all counted questions, one column per metric; only shares and ranks are computed here.
-- Equal scores share a rank. Forecasters below $floor have no rank, because omitted questions are rarely a random sample.
WITH named AS (
    SELECT *, CASE scope WHEN 'all' THEN metric END AS overall, CASE scope WHEN 'could_know' THEN metric END AS known
    FROM scores
),

lines AS (
    SELECT
        release,
        forecaster,
        any_value(value) FILTER (overall = 'brier') AS brier,
        any_value(lower) FILTER (overall = 'brier') AS brier_lower,
        any_value(upper) FILTER (overall = 'brier') AS brier_upper,
        any_value(reason) FILTER (overall = 'brier') AS brier_reason,
        any_value(value) FILTER (overall = 'brier_skill') AS brier_skill,
        any_value(lower) FILTER (overall = 'brier_skill') AS brier_skill_lower,
        any_value(upper) FILTER (overall = 'brier_skill') AS brier_skill_upper,
        any_value(reason) FILTER (overall = 'brier_skill') AS brier_skill_reason,
        any_value(value) FILTER (overall = 'skill_vs_market') AS skill_vs_market,
        any_value(lower) FILTER (overall = 'skill_vs_market') AS skill_vs_market_lower,
        any_value(upper) FILTER (overall = 'skill_vs_market') AS skill_vs_market_upper,
        any_value(reason) FILTER (overall = 'skill_vs_market') AS skill_vs_market_reason,
        any_value(value) FILTER (overall = 'pool_weight') AS pool_weight,
        any_value(lower) FILTER (overall = 'pool_weight') AS pool_weight_lower,
        any_value(upper) FILTER (overall = 'pool_weight') AS pool_weight_upper,
        any_value(reason) FILTER (overall = 'pool_weight') AS pool_weight_reason,
        any_value(value) FILTER (overall = 'log_loss') AS log_loss,
        any_value(lower) FILTER (overall = 'log_loss') AS log_loss_lower,
        any_value(upper) FILTER (overall = 'log_loss') AS log_loss_upper,
        any_value(reason) FILTER (overall = 'log_loss') AS log_loss_reason,
        any_value(value) FILTER (overall = 'roc_auc') AS roc_auc,
        any_value(lower) FILTER (overall = 'roc_auc') AS roc_auc_lower,
        any_value(upper) FILTER (overall = 'roc_auc') AS roc_auc_upper,
        any_value(reason) FILTER (overall = 'roc_auc') AS roc_auc_reason,
        any_value(value) FILTER (overall = 'accuracy') AS accuracy,
        any_value(lower) FILTER (overall = 'accuracy') AS accuracy_lower,
        any_value(upper) FILTER (overall = 'accuracy') AS accuracy_upper,
        any_value(reason) FILTER (overall = 'accuracy') AS accuracy_reason,
        any_value(value) FILTER (overall = 'ece') AS ece,
        any_value(expected) FILTER (overall = 'ece') AS ece_expected,
        any_value(p_calibrated) FILTER (overall = 'ece') AS ece_p_calibrated,
        any_value(value) FILTER (overall = 'coverage') AS coverage,
        any_value(n) FILTER (overall = 'brier') AS n,
        any_value(n_questions) FILTER (overall = 'brier') AS n_questions,
        any_value(n_clusters) FILTER (overall = 'brier') AS n_clusters,
        coalesce(any_value(n_questions) FILTER (known = 'brier'), 0) AS could_know,
        any_value(value) FILTER (known = 'brier') AS brier_could_know,
        max(known_at) AS known_at
    FROM named
    GROUP BY release, forecaster
),

counted AS (
    SELECT
        *,
        CAST(could_know AS DOUBLE) / n_questions AS could_know_share,
        n_questions - could_know - CAST(round_even(coverage * n_questions, 0) AS BIGINT) AS failed
    FROM lines
),

judged AS (
    SELECT
        *,
        CASE
            WHEN brier IS NULL AND could_know = 0 THEN 'no forecast'
            WHEN brier IS NULL OR coverage < $floor THEN
                format(
                    'forecasts that count on {} % of the questions, fewer than {:g} %',
                    CAST(floor(round(coverage * 1000, 6)) / 10 AS VARCHAR),
                    CAST(100 * $floor AS DOUBLE)
                )
                || CASE
                    WHEN could_know > 0 THEN format('; it could have known {} and left out {} of {}', could_know, failed, n_questions)
                    ELSE ''
                END
            WHEN n_clusters < $min_clusters THEN CAST($few_clusters AS VARCHAR)
        END AS unranked_because
    FROM counted
)

SELECT
    judged.*,
    CASE
        WHEN unranked_because IS NULL
            THEN CAST(rank() OVER (PARTITION BY release, unranked_because IS NULL ORDER BY brier) AS INTEGER)
    END AS rank,
    kinds.kind,
    standing.group,
    standing.in_mcs,
    standing.mcs_p,
    CAST($questions_digest AS VARCHAR) AS questions_digest,
    CAST($rules AS VARCHAR) AS rules
FROM judged
INNER JOIN kinds ON kinds.forecaster = judged.forecaster
LEFT JOIN standing ON standing.forecaster = judged.forecaster
