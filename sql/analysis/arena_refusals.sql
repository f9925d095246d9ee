-- One row per family and reason: answers that could not be used, decisions without an answer, and legs that were not executed.
WITH found AS (
    SELECT agent_id, 'invalid answer' AS kind, problem AS reason FROM arena.decisions WHERE action = 'INVALID'
    UNION ALL
    SELECT agent_id, 'no answer' AS kind, concat(state, coalesce(concat(': ', reason), '')) AS reason
    FROM arena.decisions WHERE state NOT IN ('finished', 'refused')
    UNION ALL
    SELECT decisions.agent_id, 'refused leg' AS kind, refusals.reason
    FROM arena.refusals AS refusals
    JOIN arena.decisions AS decisions ON decisions.decision_id = refusals.decision_id AND decisions.week = refusals.week
    WHERE refusals.superseded_at IS NULL
)
SELECT agents.family, found.kind, found.reason, count(*) AS number
FROM found
JOIN arena.agents AS agents ON agents.agent_id = found.agent_id
GROUP BY agents.family, found.kind, found.reason
ORDER BY agents.family, number DESC, found.kind, found.reason
