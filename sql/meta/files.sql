-- One row per file of the lake that the published warehouse was built from, including damaged files, which the warehouse leaves out.
SELECT DISTINCT file
FROM meta.partitions
WHERE published OR damage IS NOT NULL
ORDER BY file
