-- The leaderboard of an exported cohort, computed a second time: all columns but completed, which follows from the rules of the methodology.
-- It reads the tables of facts and the ledger's, not the leaderboard.
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
traded AS (
    SELECT
        agent_id,
        count(*) FILTER (action = 'BUY') AS bets,
        sum(amount) AS moved,
        CAST(sum(unmatched) AS DOUBLE) / nullif(CAST(sum(amount) FILTER (unmatched IS NOT NULL) AS DOUBLE), 0) AS unmatched
    FROM read_parquet('data/trades.parquet')
    GROUP BY agent_id
),
-- The current resolution of each market: the last known one.
resolved AS (
    SELECT market_id, methodology, arg_max(result, number) AS result, arg_max(winner, number) AS winner
    FROM read_parquet('data/settlements.parquet')
    GROUP BY market_id, methodology
),
won AS (
    SELECT
        trades.agent_id,
        trades.confidence,
        trades.probability,
        CAST(trades.price AS DOUBLE) AS price,
        CAST(lower(trades.side) = lower(resolved.winner) AS DOUBLE) AS won
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
        avg((price - won) ** 2) AS brier_price,
        avg(won) AS win_rate
    FROM won
    GROUP BY agent_id
),
booked AS (
    SELECT agent_id, arg_max(cash, number) AS cash FROM read_parquet('data/ledger.parquet') GROUP BY agent_id
),
held AS (
    SELECT agent_id, count(*) AS open_positions FROM read_parquet('data/positions.parquet') WHERE status = 'open' GROUP BY agent_id
),
curves AS (
    SELECT
        agent_id,
        portfolios."at",
        portfolios.total,
        greatest(agents.initial_cash, max(portfolios.total) OVER (PARTITION BY agent_id ORDER BY portfolios."at")) AS peak
    FROM read_parquet('data/portfolios.parquet') AS portfolios
    JOIN read_parquet('data/agents.parquet') AS agents USING (agent_id)
),
valued AS (
    SELECT agent_id, arg_max(total, "at") AS total, max(1 - CAST(total AS DOUBLE) / CAST(peak AS DOUBLE)) AS drawdown
    FROM curves
    GROUP BY agent_id
)
SELECT
    agents.methodology,
    agents.reconstructed,
    agents.family,
    agents.model,
    1 AS cohorts,
    coalesce(decided.decisions, 0) AS decisions,
    coalesce(decided.finished, 0) AS finished,
    coalesce(decided.invalid, 0) AS invalid,
    coalesce(decided.unfinished, 0) AS unfinished,
    coalesce(traded.bets, 0) AS bets,
    coalesce(refused.refused, 0) AS refused,
    coalesce(scored.scored, 0) AS scored,
    coalesce(scored.stated, 0) AS stated,
    scored.brier_stated,
    scored.brier_size,
    scored.brier_price,
    scored.win_rate,
    agents.initial_cash,
    coalesce(booked.cash, agents.initial_cash) AS cash,
    coalesce(valued.total, agents.initial_cash) AS total,
    coalesce(valued.total, agents.initial_cash) - agents.initial_cash AS profit,
    CAST(coalesce(valued.total, agents.initial_cash) - agents.initial_cash AS DOUBLE) / CAST(agents.initial_cash AS DOUBLE) AS "return",
    coalesce(valued.drawdown, 0.0) AS drawdown,
    CAST(coalesce(traded.moved, 0) AS DOUBLE) / CAST(agents.initial_cash AS DOUBLE) AS turnover,
    traded.unmatched,
    coalesce(held.open_positions, 0) AS open_positions,
    decided.cost
FROM read_parquet('data/agents.parquet') AS agents
LEFT JOIN decided USING (agent_id)
LEFT JOIN refused USING (agent_id)
LEFT JOIN traded USING (agent_id)
LEFT JOIN scored USING (agent_id)
LEFT JOIN booked USING (agent_id)
LEFT JOIN held USING (agent_id)
LEFT JOIN valued USING (agent_id)
ORDER BY agents.family
