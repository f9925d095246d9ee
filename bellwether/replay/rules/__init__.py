"""Rule sets and fees of the venues: versioned data, exact integers."""

from bellwether.replay.rules.fees import Accumulator, FillFee, OrderFees, fee_terms, trade_fee
from bellwether.replay.rules.ruleset import PMB, PMB_RULES, FeeRates, RuleSet, combine_rules, rule_set, rule_sets, rules_for

__all__ = [
    "PMB",
    "PMB_RULES",
    "Accumulator",
    "FeeRates",
    "FillFee",
    "OrderFees",
    "RuleSet",
    "combine_rules",
    "fee_terms",
    "rule_set",
    "rule_sets",
    "rules_for",
    "trade_fee",
]
