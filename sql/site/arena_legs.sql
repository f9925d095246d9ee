-- One row per executed leg (bet or sale) of a decision, with its market's question, the state of its position and the market's winner.
WITH questions AS (
    SELECT market_id, max_by(question, week) AS question FROM arena.universe GROUP BY market_id
)

SELECT
    trades.week,
    trades.agent_id,
    trades.market_id,
    questions.question,
    trades.action,
    trades.side,
    trades.probability,
    trades.bid,
    trades.ask,
    trades.price,
    trades.shares,
    trades.amount,
    trades.unmatched,
    positions.status,
    positions.realized,
    scores.winner,
    scores.won
FROM arena.trades
LEFT JOIN questions ON questions.market_id = trades.market_id
LEFT JOIN arena.positions ON positions.agent_id = trades.agent_id AND positions.position_id = trades.position_id
LEFT JOIN arena.scores ON scores.trade_id = trades.trade_id
ORDER BY trades.week, trades.trade_id
