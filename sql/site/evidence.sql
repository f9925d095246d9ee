-- One row per question of $release: the state of its market at the venue, and the deciding rule with its evidence.
SELECT
    questions.id,
    last(markets.status ORDER BY markets.known_at) AS status,
    last(markets.outcome ORDER BY markets.known_at) AS outcome,
    last(markets.settlement_value ORDER BY markets.known_at) AS settlement_value,
    last(markets.last_price ORDER BY markets.known_at) AS last_price,
    last(markets.volume ORDER BY markets.known_at) AS volume,
    last(markets.known_at ORDER BY markets.known_at) AS known_at,
    last(resolutions.winner ORDER BY resolutions.settled_at NULLS FIRST) AS winner,
    last(resolutions.rule ORDER BY resolutions.settled_at NULLS FIRST) AS rule,
    last(resolutions.evidence ORDER BY resolutions.settled_at NULLS FIRST) AS evidence
FROM benchmark.questions
LEFT JOIN clean.markets ON markets.venue = questions.source AND markets.market_id = questions.market_id
LEFT JOIN clean.resolutions ON resolutions.venue = questions.source AND resolutions.market_id = questions.market_id
WHERE questions.release = $release
GROUP BY questions.id
ORDER BY questions.id
