-- One row per family and whole week of age: the mean portfolio of its agents, in dollars, and the number of agents of that age.
SELECT methodology, reconstructed, contaminated, family, age, n AS agents, total
FROM arena.equity_by_age
WHERE age % 7 = 0
ORDER BY methodology, reconstructed, contaminated, family, age
