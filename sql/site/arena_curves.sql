-- One row per family and UTC day, or age of the cohort in days, with its return since the start. The other of the two is null. Live and reconstructed
-- cohorts are separate. Each curve keeps about 80 of its points, always the newest.
WITH curves AS (
    SELECT methodology, reconstructed, family, day, NULL AS age, n, total FROM arena.equity_by_day
    UNION ALL
    SELECT methodology, reconstructed, family, NULL, age, n, total FROM arena.equity_by_age
),

initial AS (
    SELECT methodology, CAST(any_value(initial_cash) AS DOUBLE) AS cash FROM arena.agents GROUP BY methodology
),

returns AS (
    SELECT
        curves.methodology,
        curves.reconstructed,
        curves.family,
        curves.day,
        curves.age,
        round(sum(curves.n * CAST(curves.total AS DOUBLE)) / sum(curves.n) / any_value(initial.cash) - 1, 6) AS y
    FROM curves
    JOIN initial ON initial.methodology = curves.methodology
    GROUP BY ALL
),

points AS (
    SELECT count(DISTINCT concat(day, ' ', age)) AS size FROM returns
)

SELECT returns.*
FROM returns
CROSS JOIN points
QUALIFY (dense_rank() OVER (PARTITION BY age IS NULL ORDER BY day DESC, age DESC) - 1) % (1 + points.size // 160) = 0
ORDER BY methodology, reconstructed, family, day, age
