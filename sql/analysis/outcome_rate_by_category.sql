-- One row per category: the numbers of closed markets and of binary outcomes, and the share of yes with a 95 % interval over events:
-- Wilson's, with the number of independent markets that the cluster-robust variance implies. Null with fewer than 20 events.
WITH events AS (
    SELECT
        category,
        venue,
        coalesce(event_id, market_id) AS event,
        count(*) AS markets,
        count(outcome) AS resolved,
        count(*) FILTER (outcome = 'yes') AS yes
    FROM clean.markets
    WHERE NOT is_combo
    GROUP BY ALL
),
categories AS (
    SELECT
        category,
        sum(markets)::BIGINT AS markets,
        sum(resolved)::BIGINT AS resolved,
        count(*) FILTER (resolved > 0) AS events,
        sum(yes) / nullif(sum(resolved), 0) AS yes_rate
    FROM events
    GROUP BY category
),
spread AS (
    SELECT
        category,
        sum(((yes - yes_rate * events.resolved) / nullif(categories.resolved - events.resolved, 0)) ** 2) AS variance
    FROM events
    INNER JOIN categories USING (category)
    GROUP BY category
),
effective AS (
    SELECT *, 1.96 ** 2 AS z2, least(resolved, coalesce(yes_rate * (1 - yes_rate) / nullif(variance, 0), events)) AS n
    FROM categories
    INNER JOIN spread USING (category)
)
SELECT
    category,
    markets,
    resolved,
    events,
    yes_rate,
    CASE WHEN events >= 20 THEN (yes_rate + z2 / (2 * n) - sqrt(z2 * (yes_rate * (1 - yes_rate) + z2 / (4 * n)) / n)) / (1 + z2 / n) END
        AS yes_rate_lower,
    CASE WHEN events >= 20 THEN (yes_rate + z2 / (2 * n) + sqrt(z2 * (yes_rate * (1 - yes_rate) + z2 / (4 * n)) / n)) / (1 + z2 / n) END
        AS yes_rate_upper
FROM effective
ORDER BY markets DESC, category
