-- One row per rule of a lineup: its return, and how many models earned more in the same group.
WITH earned AS (
    SELECT rankings.methodology, rankings.reconstructed, rankings.contaminated, rankings.family, rankings.value, rankings.lower, rankings.upper,
        bool_and(starts_with(agents.model, 'rule/')) AS trivial
    FROM arena.rankings AS rankings
    JOIN arena.agents AS agents USING (methodology, reconstructed, family)
    WHERE rankings.metric = 'return'
    GROUP BY ALL
)
SELECT
    rules.methodology, rules.reconstructed, rules.contaminated, rules.family, rules.value AS earned, rules.lower, rules.upper,
    count(models.family) FILTER (models.value > rules.value) AS models_above,
    count(models.family) AS models
FROM earned AS rules
LEFT JOIN earned AS models
    ON NOT models.trivial AND models.methodology = rules.methodology AND models.reconstructed = rules.reconstructed
    AND models.contaminated = rules.contaminated
WHERE rules.trivial
GROUP BY ALL
ORDER BY rules.methodology, rules.reconstructed, rules.contaminated, earned DESC, rules.family
