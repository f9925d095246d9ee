"""Weekly runs of the arena: query venues and models, store what happens once in the journal, and build rows of the arena's tables."""
