"""Drawing of the instants at which an event's markets open, close, are determined and settle."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from bellwether.sandbox.timestamps import DAY, HOUR, MINUTE, SECOND, midnight, to_datetime
from bellwether.sandbox.world.catalogue import QuestionFamily
from bellwether.sandbox.world.latent_paths import SLOT
from bellwether.sandbox.world.model import FIRST_DAY, Life
from bellwether.sandbox.world.random_draws import RandomDraws

#: Maximum days that a market exists before its event's last close, that it closes before it, and that it settles after its own close.
#: Listings rely on these bounds.
LONGEST_LIFE, EARLIEST_LEG, LATEST_SETTLEMENT = 58, 6, 40

FAR_FUTURE = midnight(date(2099, 12, 1))


@dataclass(frozen=True, slots=True)
class Timetable:
    """Instants that all markets of an event share, and the delays from a market's close to its determination (decision about the result)
    and settlement.
    """

    opens: int
    created: int
    closes: int
    scheduled: int
    expected: int
    latest: int
    determination: int
    dispute: tuple[int, int] | None
    timer: int
    home: int
    late: bool

    @property
    def local_date(self) -> date:
        """Date of the event in America."""
        return FIRST_DAY + timedelta(days=self.home - self.late)

    @property
    def deadline(self) -> date:
        """Date of the scheduled close in America."""
        return to_datetime(self.scheduled - 5 * HOUR * self.late).date()

    def life(self, closes: int, draw: RandomDraws) -> Life:
        """Draw the instants of one market of the event. closes: instant of the market's close."""
        created = self.created + draw.integer(0, 60 * SECOND)
        determined = closes + self.determination + draw.integer(0, 2 * SECOND)
        disputed, settles = None, determined
        if self.dispute:
            disputed = determined + self.dispute[0]
            settles = disputed + self.dispute[1]
        return Life(
            created, self.opens, closes, self.scheduled, determined, disputed, settles + self.timer * SECOND + draw.integer(0, SECOND)
        )


def _determination(draw: RandomDraws) -> int:
    """Draw the delay from a market's close to the decision about its result: mostly hours, sometimes days, rarely weeks."""
    luck = draw.unit()
    if luck < 0.85:
        return draw.integer(2 * MINUTE, 6 * HOUR)
    if luck < 0.97:
        return draw.integer(6 * HOUR, 3 * DAY)
    if luck < 0.994:
        return draw.integer(3 * DAY, 10 * DAY)
    return draw.integer(14 * DAY, 33 * DAY)


def _scheduled(family: QuestionFamily, closes: int, draw: RandomDraws) -> int:
    """Draw the close that is announced in advance, which may be later than the actual one, `closes`."""
    if family.early == "result":
        return (closes + draw.integer(2 * DAY, 14 * DAY)) // HOUR * HOUR
    if family.early == "deadline" and draw.chance(0.45):
        return FAR_FUTURE if draw.chance(0.06) else closes // MINUTE * MINUTE + draw.integer(3, 45) * DAY
    return closes


def draw_timetable(home: int, family: QuestionFamily, draw: RandomDraws) -> Timetable:
    """Draw the instants of an event whose last market closes on day number `home`; 0 is 2025-01-01."""
    begin = midnight(FIRST_DAY) + home * DAY
    hour = draw.integer(family.hours[0], family.hours[1] - 1)
    if family.early == "result":
        closes = begin + hour * HOUR + draw.integer(0, 3599) * SECOND
    else:
        closes = begin + hour * HOUR + draw.choose((0, 0, 0, 30, 59)) * MINUTE
    life = draw.integer(family.life[0] * 24, family.life[1] * 24) * HOUR
    opens = (closes - life) // SLOT * SLOT
    scheduled = _scheduled(family, closes, draw)
    expected = scheduled if family.early == "deadline" else closes // HOUR * HOUR
    return Timetable(
        opens=opens,
        created=opens - draw.integer(5 * MINUTE, 3 * HOUR),
        closes=closes,
        scheduled=scheduled,
        expected=expected + draw.integer(1, 10) * HOUR,
        latest=scheduled + (0 if family.early == "result" else 7 * DAY),
        determination=_determination(draw),
        dispute=(draw.integer(HOUR, 12 * HOUR), draw.integer(DAY, 5 * DAY)) if draw.chance(0.008) else None,
        timer=draw.choose((60, 120, 300, 300, 1800, 3600)),
        home=home,
        late=family.late,
    )


def draw_leg_close(table: Timetable, draw: RandomDraws) -> int:
    """Draw the close of one market, which may be days before the last close of the event."""
    most = min(EARLIEST_LEG, table.home)
    if not most or not draw.chance(0.4):
        return table.closes
    return table.closes - draw.integer(1, most * 24 - 1) * HOUR - draw.integer(0, 3599) * SECOND
