-- One row per agent and instant: the value of its portfolio, in dollars. At most about 150 per agent, always with the last.
WITH numbered AS (
    SELECT
        agent_id,
        "at",
        CAST(total AS DOUBLE) AS total,
        row_number() OVER (PARTITION BY agent_id ORDER BY "at" DESC) - 1 AS place,
        count(*) OVER (PARTITION BY agent_id) AS size
    FROM arena.portfolios
)

SELECT agent_id, "at", total
FROM numbered
WHERE place % CAST(ceil(size / 150) AS BIGINT) = 0
ORDER BY agent_id, "at"
