"""Weekly runs of the arena: query venues and models, store their answers in the journal, and build rows of the arena's tables."""
