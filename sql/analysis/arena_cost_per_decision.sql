-- One row per family: requested decisions, their cost in dollars in total, per decision and per trade, and the number of unknown costs.
SELECT
    agents.family,
    count(*) AS decisions,
    sum(decisions.attempts) AS calls,
    sum(decisions.cost) AS dollars,
    CAST(sum(decisions.cost) AS DOUBLE) / nullif(count(decisions.cost), 0) AS dollars_per_decision,
    CAST(sum(decisions.cost) AS DOUBLE) / nullif(sum(traded.trades), 0) AS dollars_per_trade,
    count(*) - count(decisions.cost) AS of_unknown_cost
FROM arena.decisions AS decisions
JOIN arena.agents AS agents ON agents.agent_id = decisions.agent_id
LEFT JOIN (
    SELECT agent_id, week, count(*) AS trades FROM arena.trades GROUP BY agent_id, week
) AS traded ON traded.agent_id = decisions.agent_id AND traded.week = decisions.week
GROUP BY agents.family
ORDER BY dollars DESC, agents.family
