-- One row per leaderboard (area, board, metric) whose places differ from those of the latest publication with other places: leaders, new and dropped
-- names, and the number of names with another place.
WITH places AS (
    SELECT
        area,
        board,
        metric,
        name,
        max(place) FILTER (current) AS place,
        max(place) FILTER (NOT current) AS former
    FROM meta.standings
    GROUP BY area, board, metric, name
)

SELECT
    area,
    board,
    metric,
    list(name ORDER BY name) FILTER (place = 1) AS leader,
    list(name ORDER BY name) FILTER (former = 1) AS former,
    list(name ORDER BY name) FILTER (former IS NULL) AS added,
    list(name ORDER BY name) FILTER (place IS NULL) AS dropped,
    count(*) FILTER (place <> former) AS moved
FROM places
WHERE EXISTS (SELECT 1 FROM meta.standings WHERE NOT current)
GROUP BY area, board, metric
HAVING count(*) FILTER (place IS DISTINCT FROM former) > 0 AND count(place) > 0
ORDER BY area, board, metric
