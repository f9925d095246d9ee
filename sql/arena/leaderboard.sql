-- One row is one family of one methodology over its cohorts; live and reconstructed cohorts have separate rows.
--
-- Inputs: agents, decisions, refusals, trades (facts); ledger, positions, portfolios (derived from them); completed (week: complete cohorts);
-- scored (methodology, reconstructed, family, and the means over the family's scored bets). arena/rankings has the ranks.
--
-- Money is summed in decimals, so that sums are exact and do not depend on the order of rows. Archived cohorts do not count.
WITH entered AS (
    SELECT
        agent_id,
        methodology,
        reconstructed,
        family,
        week IN (SELECT week FROM completed) AS is_complete,
        initial_cash AS initial
    FROM agents
    WHERE archived_at IS NULL
),

decided AS (
    SELECT
        agent_id,
        count(*) AS decisions,
        count(*) FILTER (state IN ('finished', 'refused') AND action IS DISTINCT FROM 'INVALID') AS finished,
        count(*) FILTER (state = 'finished' AND action = 'INVALID') AS invalid,
        count(*) FILTER (state NOT IN ('finished', 'refused')) AS unfinished,
        count(*) FILTER (cost IS NULL) AS unpriced,
        sum(cost) AS cost
    FROM decisions
    GROUP BY agent_id
),

refused AS (
    SELECT regexp_extract(decision_id, '^(.*)/', 1) AS agent_id, count(*) AS legs
    FROM refusals
    WHERE superseded_at IS NULL
    GROUP BY ALL
),

traded AS (
    SELECT
        agent_id,
        count(*) FILTER (action = 'BUY') AS bets,
        sum(amount) AS moved,
        sum(unmatched) AS unmatched,
        sum(amount) FILTER (unmatched IS NOT NULL) AS quoted
    FROM trades
    GROUP BY agent_id
),

booked AS (
    SELECT agent_id, arg_max(cash, number) AS cash
    FROM ledger
    GROUP BY agent_id
),

held AS (
    SELECT agent_id, count(*) AS positions
    FROM positions
    WHERE status = 'open'
    GROUP BY agent_id
),

curves AS (
    SELECT
        entered.agent_id,
        portfolios.at,
        portfolios.total,
        greatest(entered.initial, max(portfolios.total) OVER (PARTITION BY portfolios.agent_id ORDER BY portfolios.at)) AS peak
    FROM portfolios
    INNER JOIN entered ON entered.agent_id = portfolios.agent_id
),

valued AS (
    SELECT agent_id, arg_max(total, "at") AS total, max(CAST(peak - total AS DOUBLE) / CAST(peak AS DOUBLE)) AS drawdown
    FROM curves
    GROUP BY agent_id
),

families AS (
    SELECT
        entered.methodology,
        entered.reconstructed,
        entered.family,
        count(*) AS cohorts,
        count(*) FILTER (entered.is_complete) AS completed,
        coalesce(sum(decided.decisions), 0) AS decisions,
        coalesce(sum(decided.finished), 0) AS finished,
        coalesce(sum(decided.invalid), 0) AS invalid,
        coalesce(sum(decided.unfinished), 0) AS unfinished,
        coalesce(sum(traded.bets), 0) AS bets,
        coalesce(sum(refused.legs), 0) AS refused,
        sum(entered.initial) AS initial,
        sum(coalesce(booked.cash, entered.initial)) AS cash,
        sum(coalesce(valued.total, entered.initial)) AS total,
        coalesce(sum(traded.moved), 0) AS moved,
        CAST(sum(traded.unmatched) AS DOUBLE) / nullif(CAST(sum(traded.quoted) AS DOUBLE), 0) AS unmatched,
        coalesce(max(valued.drawdown), 0.0) AS drawdown,
        coalesce(sum(held.positions), 0) AS open_positions,
        CASE WHEN coalesce(sum(decided.unpriced), 0) = 0 THEN coalesce(sum(decided.cost), 0) END AS cost
    FROM entered
    LEFT JOIN decided ON decided.agent_id = entered.agent_id
    LEFT JOIN refused ON refused.agent_id = entered.agent_id
    LEFT JOIN traded ON traded.agent_id = entered.agent_id
    LEFT JOIN booked ON booked.agent_id = entered.agent_id
    LEFT JOIN held ON held.agent_id = entered.agent_id
    LEFT JOIN valued ON valued.agent_id = entered.agent_id
    GROUP BY ALL
),

measured AS (
    SELECT
        families.*,
        scored.* EXCLUDE (methodology, reconstructed, family),
        CAST(families.total - families.initial AS DOUBLE) / CAST(families.initial AS DOUBLE) AS "return",
        CAST(families.moved AS DOUBLE) / CAST(families.initial AS DOUBLE) AS turnover
    FROM families
    LEFT JOIN scored
        ON scored.methodology = families.methodology
        AND scored.reconstructed = families.reconstructed
        AND scored.family = families.family
)

SELECT
    methodology,
    reconstructed,
    family,
    brier_stated,
    brier_price,
    "return",
    CAST(total - initial AS DECIMAL(30, 6)) AS profit,
    CAST(total AS DECIMAL(30, 6)) AS total,
    brier_size,
    win_rate,
    CAST(cohorts AS INTEGER) AS cohorts,
    CAST(completed AS INTEGER) AS completed,
    CAST(decisions AS INTEGER) AS decisions,
    CAST(finished AS INTEGER) AS finished,
    CAST(invalid AS INTEGER) AS invalid,
    CAST(unfinished AS INTEGER) AS unfinished,
    CAST(bets AS INTEGER) AS bets,
    CAST(refused AS INTEGER) AS refused,
    CAST(scored AS INTEGER) AS scored,
    CAST(stated AS INTEGER) AS stated,
    CAST(initial AS DECIMAL(30, 6)) AS initial_cash,
    CAST(cash AS DECIMAL(30, 6)) AS cash,
    drawdown,
    turnover,
    unmatched,
    CAST(open_positions AS INTEGER) AS open_positions,
    CAST(cost AS DECIMAL(30, 6)) AS cost
FROM measured
