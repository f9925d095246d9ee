-- One row per file of the lake that the published warehouse was built from.
SELECT DISTINCT file
FROM meta.partitions
WHERE published
ORDER BY file
