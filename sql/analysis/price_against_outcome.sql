-- One row per tenth of the market's price $hours hours before its market closed, on the release $release: the number of questions with such a price, their
-- mean price, the share of yes, and the Brier score of the price.
SELECT
    least(floor(price * 10), 9) / 10 AS price_from,
    count(*) AS n,
    round(avg(price), 4) AS mean_price,
    round(avg(outcome_yes), 4) AS yes_rate,
    round(avg((price - outcome_yes) ** 2), 4) AS brier
FROM views.price_before($hours)
WHERE release = $release
GROUP BY price_from
ORDER BY price_from
