-- One row per position, with its market's question.
WITH questions AS (
    SELECT market_id, max_by(question, week) AS question FROM arena.universe GROUP BY market_id
)

SELECT positions.*, questions.question
FROM arena.positions
LEFT JOIN questions ON questions.market_id = positions.market_id
ORDER BY positions.agent_id, positions.position_id
