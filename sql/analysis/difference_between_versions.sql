-- One row per question in which the release $other differs from the release $release: added, removed or changed, and which of text, category, times and
-- outcome changed. No rows: the questions are equal. A release without questions is an error.
WITH one AS (
    SELECT * FROM views.questions WHERE release = $release
),
two AS (
    SELECT * FROM views.questions WHERE release = $other
),
missing AS (
    SELECT asked.release
    FROM (VALUES ($release), ($other)) AS asked (release)
    WHERE asked.release NOT IN (SELECT known.release FROM views.questions AS known)
)
SELECT
    coalesce(one.question_id, two.question_id) AS question_id,
    CASE WHEN one.question_id IS NULL THEN 'added' WHEN two.question_id IS NULL THEN 'removed' ELSE 'changed' END AS difference,
    CASE
        WHEN one.question_id IS NOT NULL AND two.question_id IS NOT NULL
            THEN list_filter(
                [
                    CASE WHEN one.question IS DISTINCT FROM two.question THEN 'question' END,
                    CASE WHEN one.description IS DISTINCT FROM two.description THEN 'description' END,
                    CASE WHEN one.category IS DISTINCT FROM two.category THEN 'category' END,
                    CASE WHEN one.open_time IS DISTINCT FROM two.open_time THEN 'open_time' END,
                    CASE WHEN one.close_time IS DISTINCT FROM two.close_time THEN 'close_time' END,
                    CASE WHEN one.settled_at IS DISTINCT FROM two.settled_at THEN 'settled_at' END,
                    CASE WHEN one.outcome IS DISTINCT FROM two.outcome THEN 'outcome' END
                ],
                lambda name: name IS NOT NULL
            )
    END AS changed,
    one.outcome AS outcome,
    two.outcome AS outcome_other
FROM one
FULL JOIN two ON one.question_id = two.question_id
WHERE
    (one.question_id IS NULL OR two.question_id IS NULL OR len(changed) > 0)
    AND coalesce((SELECT error('there is no release ' || min(missing.release)) FROM missing HAVING count(*) > 0), true)
ORDER BY difference, question_id
