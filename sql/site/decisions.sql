-- One row per decision of the arena, the $most newest ones: its family, cost, and the reasons of its refused legs (bets or sales).
SELECT
    decisions.decision_id,
    decisions.known_at,
    decisions.action,
    decisions.state,
    decisions.legs,
    decisions.cost,
    decisions.problem,
    agents.family,
    list(refusals.reason ORDER BY refusals.leg) FILTER (refusals.reason IS NOT NULL) AS refusals
FROM arena.decisions
JOIN arena.agents ON agents.agent_id = decisions.agent_id
LEFT JOIN arena.refusals ON refusals.decision_id = decisions.decision_id AND refusals.superseded_at IS NULL
GROUP BY ALL
ORDER BY decisions.known_at DESC, decisions.decision_id DESC
LIMIT $most
