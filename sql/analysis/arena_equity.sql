-- One row per agent and UTC day: the value of its portfolio at the end of the day, in dollars, and its age in days. Days without a row changed nothing.
SELECT
    agents.family,
    agents.week AS cohort,
    CAST(portfolios.at AS DATE) AS day,
    CAST(portfolios.at AS DATE) - agents.week AS age,
    arg_max(portfolios.total, portfolios.at) AS total,
    arg_max(portfolios.cash, portfolios.at) AS cash,
    arg_max(portfolios.fallbacks, portfolios.at) AS positions_without_a_live_price
FROM arena.portfolios AS portfolios
JOIN arena.agents AS agents ON agents.agent_id = portfolios.agent_id
GROUP BY ALL
ORDER BY agents.family, agents.week, day
