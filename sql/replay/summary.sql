-- One row is one agent over all its episodes under one rule set.
--
-- Inputs: backtests (rows of replay/backtests).
--
-- Episodes with an unsettled position do not count.
-- Runs of several episodes, whose names contain "+", count only if an agent has no others: else a recording would count twice.
-- Each number covers the episodes in which it is defined; queues are the sampled queue histories that all counted episodes have, and their
-- P&L is summed over episodes.
WITH chosen AS (
    SELECT *, NOT unsettled AS counts, CAST(pnl AS DOUBLE) AS earned, CAST(contracts AS DOUBLE) AS traded
    FROM backtests
    QUALIFY contains(episode, '+') = bool_and(contains(episode, '+')) OVER (PARTITION BY agent, rules)
),

lines AS (
    SELECT
        agent,
        rules,
        count(*) FILTER (counts) AS episodes,
        count(*) FILTER (unsettled) AS unsettled,
        count(*) FILTER (counts AND default_fees) AS default_fees,
        count(failure) FILTER (counts) AS failures,
        CAST(coalesce(sum(pnl) FILTER (counts), 0) AS DECIMAL(30, 6)) AS pnl,
        avg(pnl) FILTER (counts) AS pnl_mean,
        median(earned) FILTER (counts) AS pnl_median,
        min(earned) FILTER (counts) AS pnl_min,
        max(earned) FILTER (counts) AS pnl_max,
        avg("return") FILTER (counts) AS return_mean,
        max(max_drawdown) FILTER (counts) AS max_drawdown,
        avg(sharpe_annualised) FILTER (counts) AS sharpe_mean,
        min(sharpe_annualised) FILTER (counts) AS sharpe_min,
        max(sharpe_annualised) FILTER (counts) AS sharpe_max,
        avg(fill_ratio) FILTER (counts) AS fill_ratio_mean,
        CAST(coalesce(sum(contracts) FILTER (counts), 0) AS DECIMAL(30, 2)) AS contracts,
        CAST(coalesce(sum(orders) FILTER (counts), 0) AS BIGINT) AS orders,
        CAST(coalesce(sum(fees) FILTER (counts), 0) AS DECIMAL(30, 6)) AS fees,
        CAST(sum(slippage) FILTER (counts) AS DECIMAL(30, 6)) AS slippage,
        sum(coalesce(maker_share, 0) * traded) FILTER (counts) / nullif(sum(traded) FILTER (counts), 0) AS maker_share,
        avg(CAST(earned > 0 AS INTEGER)) FILTER (counts) AS profitable,
        max(known_at) AS known_at
    FROM chosen
    GROUP BY agent, rules
),

histories AS (
    SELECT agent, rules, unnest(queue_pnls) AS pnl, generate_subscripts(queue_pnls, 1) AS history
    FROM chosen
    WHERE counts
),

sums AS (
    SELECT agent, rules, history, count(*) AS episodes, CAST(sum(pnl) AS DOUBLE) AS pnl
    FROM histories
    GROUP BY agent, rules, history
),

spreads AS (
    SELECT
        agent,
        rules,
        count(*) AS queues,
        median(sums.pnl) AS queue_pnl_median,
        list_sort(list(sums.pnl))[count(*) // 20 + 1] AS queue_pnl_low,
        list_sort(list(sums.pnl))[count(*) - count(*) // 20] AS queue_pnl_high,
        avg(CAST(sums.pnl > 0 AS INTEGER)) AS queue_profitable
    FROM sums
    INNER JOIN lines USING (agent, rules, episodes)
    GROUP BY agent, rules
)

SELECT * REPLACE (coalesce(queues, 0) AS queues)
FROM lines
LEFT JOIN spreads USING (agent, rules)
