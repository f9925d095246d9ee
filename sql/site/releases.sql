-- One row per release of questions: their number and times, the number of forecasters, and the leaders with the score of the first. The main release is
-- first: that with the most scored questions, and of several the newest; subsets (names with @) and unscored releases are last.
WITH asked AS (
    SELECT
        release,
        count(*) AS questions,
        any_value(cutoff) AS cutoff,
        max(close_time) AS closed
    FROM benchmark.questions
    GROUP BY release
),

boards AS (
    SELECT
        release,
        count(*) AS forecasters,
        list(forecaster ORDER BY forecaster) FILTER (rank = 1) AS leaders,
        min_by(brier, forecaster) FILTER (rank = 1) AS brier,
        min_by(brier_lower, forecaster) FILTER (rank = 1) AS brier_lower,
        min_by(brier_upper, forecaster) FILTER (rank = 1) AS brier_upper,
        min_by(brier_reason, forecaster) FILTER (rank = 1) AS brier_reason,
        max(n_questions) AS scored,
        max(known_at) AS known_at
    FROM benchmark.leaderboard
    GROUP BY release
)

SELECT asked.*, boards.* EXCLUDE (release)
FROM asked
LEFT JOIN boards ON boards.release = asked.release
ORDER BY boards.scored IS NULL, contains(asked.release, '@'), boards.scored DESC, boards.known_at DESC, asked.release DESC
