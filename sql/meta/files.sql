-- One row per file of the lake that the published warehouse was built from, of all tables or of $tables; including damaged files, which the warehouse leaves out.
SELECT DISTINCT file
FROM meta.partitions
WHERE (published OR damage IS NOT NULL) AND ($tables IS NULL OR list_contains($tables, table_name))
ORDER BY file
