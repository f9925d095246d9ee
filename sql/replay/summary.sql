-- One row is one agent over all its episodes under one rule set. Polars runs this, and DuckDB gives the same rows.
--
-- Inputs: backtests (rows of replay/backtests).
-- Parameters: $unsettled, whether episodes with an unsettled position count, at their marks.
--
-- Runs of several episodes, whose names contain "+", count only if an agent has no others: else a recording would count twice.
-- Each number covers the episodes in which it is defined.
WITH named AS (
    SELECT *, CASE WHEN episode LIKE '%+%' THEN 1 ELSE 0 END AS is_joined
    FROM backtests
),

chosen AS (
    SELECT *, min(is_joined) OVER (PARTITION BY agent, rules) AS fewest
    FROM named
),

marked AS (
    SELECT
        *,
        ($unsettled OR NOT unsettled) AS counts,
        CAST(pnl AS DOUBLE) AS earned,
        CAST(contracts AS DOUBLE) AS traded
    FROM chosen
    WHERE is_joined = fewest
)

SELECT
    agent,
    rules,
    count(*) FILTER (WHERE counts) AS episodes,
    count(*) FILTER (WHERE unsettled) AS unsettled,
    count(*) FILTER (WHERE counts AND default_fees) AS default_fees,
    count(failure) FILTER (WHERE counts) AS failures,
    coalesce(sum(pnl) FILTER (WHERE counts), 0) AS pnl,
    avg(earned) FILTER (WHERE counts) AS pnl_mean,
    median(earned) FILTER (WHERE counts) AS pnl_median,
    min(earned) FILTER (WHERE counts) AS pnl_min,
    max(earned) FILTER (WHERE counts) AS pnl_max,
    coalesce(sum(pnl_pessimistic) FILTER (WHERE counts), 0) AS pnl_pessimistic,
    coalesce(sum(pnl_optimistic) FILTER (WHERE counts), 0) AS pnl_optimistic,
    CASE WHEN min(band) = max(band) THEN min(band) ELSE 'mixed' END AS band,
    avg("return") FILTER (WHERE counts) AS return_mean,
    max(max_drawdown) FILTER (WHERE counts) AS max_drawdown,
    avg(sharpe_annualised) FILTER (WHERE counts) AS sharpe_mean,
    min(sharpe_annualised) FILTER (WHERE counts) AS sharpe_min,
    max(sharpe_annualised) FILTER (WHERE counts) AS sharpe_max,
    avg(fill_ratio) FILTER (WHERE counts) AS fill_ratio_mean,
    coalesce(sum(contracts) FILTER (WHERE counts), 0) AS contracts,
    coalesce(sum(orders) FILTER (WHERE counts), 0) AS orders,
    coalesce(sum(fees) FILTER (WHERE counts), 0) AS fees,
    sum(slippage) FILTER (WHERE counts) AS slippage,
    sum(coalesce(maker_share, 0) * traded) FILTER (WHERE counts) / nullif(sum(traded) FILTER (WHERE counts), 0) AS maker_share,
    CAST(count(*) FILTER (WHERE counts AND earned > 0) AS DOUBLE) / nullif(count(*) FILTER (WHERE counts), 0) AS profitable,
    max(known_at) AS known_at
FROM marked
GROUP BY agent, rules
ORDER BY agent, rules
