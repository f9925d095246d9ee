-- One row is one agent over all its episodes under one rule set. Polars runs this, and DuckDB gives the same rows.
--
-- Inputs: backtests (rows of replay/backtests), histories (agent, rules, episode, history, pnl: elements of their column queue_pnls).
-- Parameters: $unsettled, whether episodes with an unsettled position count, at their marks.
--
-- Runs of several episodes, whose names contain "+", count only if an agent has no others: else a recording would count twice.
-- Each number covers the episodes in which it is defined; queues are the sampled queue histories that all counted episodes have, and their
-- P&L is summed over episodes.
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
),

sums AS (
    SELECT marked.agent, marked.rules, histories.history, count(*) AS episodes, CAST(sum(histories.pnl) AS DOUBLE) AS pnl
    FROM marked
    INNER JOIN histories
        ON histories.agent = marked.agent AND histories.rules = marked.rules AND histories.episode = marked.episode
    WHERE marked.counts
    GROUP BY marked.agent, marked.rules, histories.history
),

lines AS (
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
),

ranked AS (
    SELECT
        sums.agent,
        sums.rules,
        sums.pnl,
        row_number() OVER (PARTITION BY sums.agent, sums.rules ORDER BY sums.pnl) AS place,
        count(*) OVER (PARTITION BY sums.agent, sums.rules) AS queues
    FROM sums
    INNER JOIN lines ON lines.agent = sums.agent AND lines.rules = sums.rules
    WHERE sums.episodes = lines.episodes
),

spreads AS (
    SELECT
        agent,
        rules,
        count(*) AS queues,
        median(pnl) AS queue_pnl_median,
        max(CASE WHEN place = floor(queues / 20) + 1 THEN pnl END) AS queue_pnl_low,
        max(CASE WHEN place = queues - floor(queues / 20) THEN pnl END) AS queue_pnl_high,
        CAST(count(*) FILTER (WHERE pnl > 0) AS DOUBLE) / count(*) AS queue_profitable
    FROM ranked
    GROUP BY agent, rules
)

SELECT
    lines.*,
    coalesce(spreads.queues, 0) AS queues,
    spreads.queue_pnl_median,
    spreads.queue_pnl_low,
    spreads.queue_pnl_high,
    spreads.queue_profitable
FROM lines
LEFT JOIN spreads ON spreads.agent = lines.agent AND spreads.rules = lines.rules
ORDER BY lines.agent, lines.rules
