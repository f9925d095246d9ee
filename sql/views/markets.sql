-- One row per market of clean.markets, with the traded amount in one unit per column: contracts on Kalshi, dollars on Polymarket.
SELECT
    * EXCLUDE (volume),
    CASE WHEN venue = 'kalshi' THEN volume END AS contracts_traded,
    CASE WHEN venue = 'polymarket' THEN volume END AS dollars_traded,
    CASE outcome WHEN 'yes' THEN 1 WHEN 'no' THEN 0 END AS outcome_yes
FROM clean.markets
