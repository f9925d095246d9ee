"""Rule sets and fees of the venues: versioned data, exact integers."""

from bellwether.replay.rules.fees import Accumulator, FillFee, OrderFees, kalshi_fee, trade_fee
from bellwether.replay.rules.ruleset import PMB, FeeRates, RuleSet, rule_set, rule_sets, rules_for
from bellwether.replay.rules.terms import FEE_COLS, fee_terms

__all__ = [
    "FEE_COLS",
    "PMB",
    "Accumulator",
    "FeeRates",
    "FillFee",
    "OrderFees",
    "RuleSet",
    "fee_terms",
    "kalshi_fee",
    "rule_set",
    "rule_sets",
    "rules_for",
    "trade_fee",
]
