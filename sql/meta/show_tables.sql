-- One row per table or view of the warehouse.
SELECT
    concat_ws('.', listed.table_schema, listed.table_name) AS name,
    stored.rows,
    coalesce(stored.description, listed.table_comment) AS description
FROM information_schema.tables AS listed
LEFT JOIN meta.tables AS stored ON stored.table_name = concat_ws('.', listed.table_schema, listed.table_name)
WHERE listed.table_catalog = current_database()
ORDER BY name
