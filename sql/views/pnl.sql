-- One row per agent, episode and market that it traded, under the names of clean.markets: what it earned there, in dollars, and the outcome.
SELECT
    market_pnl.agent,
    market_pnl.episode,
    episodes.venue,
    market_pnl.ticker AS market_id,
    episodes.event AS event_id,
    backtests.settled_at AS ended_at,
    CASE episodes.result WHEN 'YES' THEN 'yes' WHEN 'NO' THEN 'no' END AS outcome,
    market_pnl.fills,
    market_pnl.fees,
    market_pnl.pnl
FROM replay.market_pnl
JOIN replay.backtests ON backtests.episode = market_pnl.episode AND backtests.agent = market_pnl.agent
LEFT JOIN replay.episodes ON episodes.episode = market_pnl.episode AND episodes.ticker = market_pnl.ticker
