"""Rule sets and fees of the venues: versioned data, exact integers."""

from bellwether.replay.rules.ruleset import FeeRates, RuleSet, rule_set, rule_sets, rules_for
from bellwether.replay.rules.terms import FEE_COLS, fee_terms

__all__ = ["FEE_COLS", "FeeRates", "RuleSet", "fee_terms", "rule_set", "rule_sets", "rules_for"]
