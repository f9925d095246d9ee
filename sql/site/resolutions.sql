-- One row per resolution of the market of a question of $release: the deciding rule and its evidence.
SELECT
    questions.id,
    resolutions.status,
    resolutions.winner,
    resolutions.rule,
    resolutions.settled_at,
    resolutions.evidence
FROM clean.resolutions
JOIN benchmark.questions ON questions.source = resolutions.venue AND questions.market_id = resolutions.market_id
WHERE questions.release = $release
ORDER BY questions.id
