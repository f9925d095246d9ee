-- One row per agent: its newest portfolio, or the initial cash before the first, its return, the number of its trades and positions, and whether no
-- agent of its cohort that traded has a higher return.
WITH newest AS (
    SELECT agent_id, max_by(total, "at") AS total, max_by(cash, "at") AS cash
    FROM arena.portfolios
    GROUP BY agent_id
),

traded AS (
    SELECT agent_id, count(*) AS trades FROM arena.trades GROUP BY agent_id
),

held AS (
    SELECT agent_id, count(*) FILTER (status = 'open') AS open, count(*) FILTER (status <> 'open') AS ended
    FROM arena.positions
    GROUP BY agent_id
),

books AS (
    SELECT
        agents.* EXCLUDE (initial_cash),
        CAST(agents.initial_cash AS DOUBLE) AS initial_cash,
        coalesce(newest.total - agents.initial_cash, 0) AS profit,
        CAST(coalesce(newest.total, agents.initial_cash) AS DOUBLE) AS total,
        CAST(coalesce(newest.cash, agents.initial_cash) AS DOUBLE) AS cash,
        coalesce(traded.trades, 0) AS trades,
        coalesce(held.open, 0) AS open,
        coalesce(held.ended, 0) AS ended
    FROM arena.agents
    LEFT JOIN newest ON newest.agent_id = agents.agent_id
    LEFT JOIN traded ON traded.agent_id = agents.agent_id
    LEFT JOIN held ON held.agent_id = agents.agent_id
),

returns AS (
    SELECT * EXCLUDE (profit), CAST(profit AS DOUBLE) / initial_cash AS "return" FROM books
)

SELECT
    *,
    trades > 0 AND "return" = max("return") FILTER (trades > 0) OVER (PARTITION BY week) AS best
FROM returns
ORDER BY week, total DESC, agent_id
