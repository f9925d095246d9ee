-- One row per category: how many markets closed, how many have a binary outcome, and how often that was yes,
-- with the 95 % Wilson interval (markets of one event are not independent, so the true interval is wider).
WITH counted AS (
    SELECT
        category,
        count(*) AS markets,
        count(outcome) AS resolved,
        count(*) FILTER (outcome = 'yes') AS yes
    FROM clean.markets
    WHERE NOT is_combo
    GROUP BY category
),
rated AS (
    SELECT *, yes / nullif(resolved, 0) AS yes_rate, 1.96 * 1.96 AS z2
    FROM counted
)
SELECT
    category,
    markets,
    resolved,
    yes_rate,
    (yes_rate + z2 / (2 * resolved) - sqrt(z2) * sqrt((yes_rate * (1 - yes_rate) + z2 / (4 * resolved)) / resolved)) / (1 + z2 / resolved)
        AS yes_rate_lower,
    (yes_rate + z2 / (2 * resolved) + sqrt(z2) * sqrt((yes_rate * (1 - yes_rate) + z2 / (4 * resolved)) / resolved)) / (1 + z2 / resolved)
        AS yes_rate_upper
FROM rated
ORDER BY markets DESC, category
