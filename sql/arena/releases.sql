-- One row is one release of a family, as the cohorts of its family used it.
--
-- Inputs: agents (arena/agents), families (family, title, control) and dated (family, model, released), both from the current registry.
-- Parameter: $rule, the prefix of the names of rules; rules have no releases.
WITH used AS (
    SELECT
        reconstructed,
        family,
        model,
        last(model_id ORDER BY week) AS model_id,
        last(input_price ORDER BY week) AS input_price,
        last(output_price ORDER BY week) AS output_price,
        min(week) AS first_cohort,
        max(week) AS last_cohort,
        CAST(count(DISTINCT week) AS INTEGER) AS cohorts
    FROM agents
    WHERE NOT starts_with(model, $rule)
    GROUP BY reconstructed, family, model
)

SELECT
    used.*,
    coalesce(families.title, used.family) AS title,
    coalesce(families.control, false) AS control,
    dated.released,
    lag(used.model) OVER (PARTITION BY used.reconstructed, used.family ORDER BY used.first_cohort, used.model) AS previous
FROM used
LEFT JOIN families ON families.family = used.family
LEFT JOIN dated ON dated.family = used.family AND dated.model = used.model
