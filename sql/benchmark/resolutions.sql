-- One row is one question of a release with its outcome as published and as known now, and how certain the latter is.
--
-- Inputs: questions (benchmark/questions), later (its rows of later versions of the release), markets (clean/markets), resolutions (clean/resolutions).
-- Parameters: $late_days, days from the close after which a settlement is late; $rules, the version of these rules.
--
-- An imported release is of a venue without markets in the lake: its newest version has the outcomes as known now. A question that this version lacks
-- has no outcome any more. No outcome is late, as questions have dates of resolution after the close.
--
-- Status, the first that applies: unknown, if no venue in the lake has the market and the release has no later version; voided, if it settled without a
-- yes or no; disputed, if its outcome is open again; corrected, if another outcome than the published one settled; disputed, if the oracle had a dispute
-- before it settled; late; final.
WITH stated AS (
    SELECT venue, market_id, outcome, outcome_reason, status, settled_at, known_at, FALSE AS is_imported
    FROM markets
    QUALIFY row_number() OVER (PARTITION BY venue, market_id ORDER BY known_at DESC, day DESC) = 1
),

newest AS (
    SELECT *
    FROM later
    QUALIFY rank() OVER (ORDER BY version DESC) = 1
),

latest AS (
    SELECT * FROM stated
    UNION ALL
    SELECT
        questions.source,
        questions.market_id,
        newest.ground_truth,
        NULL,
        CASE WHEN newest.id IS NULL THEN 'open' ELSE 'settled' END,
        newest.settled_at,
        max(newest.known_at) OVER (),
        TRUE
    FROM questions
    LEFT JOIN newest ON newest.id = questions.id
    WHERE EXISTS (FROM newest) AND questions.source NOT IN (SELECT venue FROM stated)
),

oracle AS (
    SELECT
        market_id,
        list_transform(CAST(json_extract_string(evidence, '$.uma_statuses[*]') AS VARCHAR[]), lambda state: lower(trim(state))) AS states
    FROM resolutions
    QUALIFY row_number() OVER (PARTITION BY market_id ORDER BY known_at DESC, day DESC) = 1
)

SELECT
    questions.release,
    questions.id AS question_id,
    questions.ground_truth AS published,
    CASE WHEN latest.market_id IS NULL THEN questions.ground_truth ELSE latest.outcome END AS outcome,
    latest.outcome_reason,
    CASE
        WHEN latest.market_id IS NULL THEN 'unknown'
        WHEN latest.outcome IS NULL AND latest.status = 'settled' THEN 'voided'
        WHEN latest.outcome IS NULL THEN 'disputed'
        WHEN latest.outcome <> questions.ground_truth THEN 'corrected'
        WHEN list_contains(oracle.states, 'disputed') THEN 'disputed'
        WHEN NOT latest.is_imported AND latest.settled_at > questions.close_time + to_days(CAST($late_days AS INTEGER)) THEN 'late'
        ELSE 'final'
    END AS resolution_status,
    nullif(array_to_string(oracle.states, ', '), '') AS history,
    questions.close_time,
    latest.settled_at,
    greatest(questions.known_at, latest.known_at) AS known_at,
    CAST($rules AS VARCHAR) AS rules
FROM questions
LEFT JOIN latest ON latest.venue = questions.source AND latest.market_id = questions.market_id
LEFT JOIN oracle ON questions.source = 'polymarket' AND oracle.market_id = questions.market_id
