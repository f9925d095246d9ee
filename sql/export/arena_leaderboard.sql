-- One row per family of the exported cohort: what it decided, how its bets were scored, and what it earned. Run it in the folder of the export:
-- duckdb -c ".read leaderboard.sql". It reads the tables of facts and of the ledger alone, and gives the rows of leaderboard.parquet.
WITH decided AS (
    SELECT
        agent_id,
        count(*) AS decisions,
        count(*) FILTER (state IN ('finished', 'refused') AND action IS DISTINCT FROM 'INVALID') AS finished,
        count(*) FILTER (state = 'finished' AND action = 'INVALID') AS invalid,
        count(*) FILTER (state NOT IN ('finished', 'refused')) AS unfinished,
        CASE WHEN count(*) = count(cost) THEN sum(cost) END AS cost
    FROM read_parquet('data/decisions.parquet')
    GROUP BY agent_id
),
refused AS (
    SELECT decisions.agent_id, count(*) AS refused
    FROM read_parquet('data/refusals.parquet')
    JOIN read_parquet('data/decisions.parquet') AS decisions USING (decision_id)
    GROUP BY decisions.agent_id
),
bought AS (
    SELECT agent_id, count(*) AS bets FROM read_parquet('data/trades.parquet') WHERE action = 'BUY' GROUP BY agent_id
),
-- The resolution in force of each market: the last that is known.
resolved AS (
    SELECT market_id, methodology, arg_max(result, number) AS result, arg_max(winner, number) AS winner
    FROM read_parquet('data/settlements.parquet')
    GROUP BY market_id, methodology
),
won AS (
    SELECT trades.*, CAST(lower(trades.side) = lower(resolved.winner) AS DOUBLE) AS won
    FROM read_parquet('data/trades.parquet') AS trades
    JOIN read_parquet('data/agents.parquet') AS agents USING (agent_id)
    JOIN resolved ON resolved.market_id = trades.market_id AND resolved.methodology = agents.methodology
    WHERE trades.action = 'BUY' AND resolved.result = 'won'
),
scored AS (
    SELECT
        agent_id,
        count(*) AS scored,
        count(probability) AS stated,
        avg((probability - won) ** 2) AS brier_stated,
        avg(CASE WHEN confidence BETWEEN 0 AND 1 THEN (confidence - won) ** 2 END) AS brier_size,
        avg((CAST(price AS DOUBLE) - won) ** 2) AS brier_price,
        avg(won) AS win_rate
    FROM won
    GROUP BY agent_id
),
valued AS (
    SELECT agent_id, arg_max(total, "at") AS total FROM read_parquet('data/portfolios.parquet') GROUP BY agent_id
)
SELECT
    agents.family,
    agents.model,
    decided.decisions,
    decided.finished,
    decided.invalid,
    decided.unfinished,
    coalesce(bought.bets, 0) AS bets,
    coalesce(refused.refused, 0) AS refused,
    coalesce(scored.scored, 0) AS scored,
    coalesce(scored.stated, 0) AS stated,
    scored.brier_stated,
    scored.brier_size,
    scored.brier_price,
    scored.win_rate,
    agents.initial_cash,
    coalesce(valued.total, agents.initial_cash) AS total,
    coalesce(valued.total, agents.initial_cash) - agents.initial_cash AS profit,
    CAST(coalesce(valued.total, agents.initial_cash) - agents.initial_cash AS DOUBLE) / CAST(agents.initial_cash AS DOUBLE) AS "return",
    decided.cost
FROM read_parquet('data/agents.parquet') AS agents
LEFT JOIN decided USING (agent_id)
LEFT JOIN refused USING (agent_id)
LEFT JOIN bought USING (agent_id)
LEFT JOIN scored USING (agent_id)
LEFT JOIN valued USING (agent_id)
ORDER BY agents.family
