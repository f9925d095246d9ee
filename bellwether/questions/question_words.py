"""Vocabulary of questions in English: words and phrases of one meaning, opposites, numbers as words, and words without a subject."""

from __future__ import annotations

#: Words of one meaning, the first of each line standing for all. Those after a bar turn a question into its opposite.
SYNONYMS = """
win won winner champion championship crown elect reelect triumph title nominee nominate nomination medal | lose lost losing defeat
last bottom
leave left cease out remove removal resign resignation oust depart departure exit quit step fire dismiss sack retire retirement abdicate | remain stay keep kept retain continue still
release launch publish available offer debut unveil premiere
increase rise risen rose higher grow growth grew above exceed surpass warmer hotter more greater over gone up upward | decrease fall fallen fell lower below less fewer under decline cut cooler drop dip reduce reduction down downward shrink
reach hit make qualify attain
announce announcement declare declaration cast become name report say said
invade invasion conquer attack
capture seize
closed shut closure
president presidential presidency
democrat democratic dem | republican gop
best top lead
richest wealthiest wealth
hottest warmest
car automobile vehicle
movie film
theater theatre cinema
troop soldier
deploy deployment
train rail railway
guilty convict conviction | acquit innocent
jail prison imprison
act actor
alive lifetime
math mathematics mathematical
oscar academy
ban prohibit outlaw | legalize legalise legal permit
die dead death fatality kill
stock share
price worth value cost
found create establish form start
buy bought acquire acquisition purchase takeover
sell sold sale
truce ceasefire armistice
treaty accord pact agreement agree deal
approve approval authorize | reject rejection deny withdraw withdrawal revoke veto
pass enact adopt
law legislation bill statute
overturn overrule reverse | uphold upheld
find discover discovery detect
married marry marriage wed wedding
lawsuit suit litigation sue
bankruptcy bankrupt insolvency
merge merger
join rejoin accession
recession downturn
jobless unemployment
hike raise
tariff duty levy
indict charge arrest
assassinate murder
coup overthrow topple
rain rainfall precipitation
snow snowfall
gross earn
visit travel trip
meeting meet summit
vote ballot referendum
pause hold unchanged
big large
country nation
world global worldwide earth globe
laboratory lab
moon lunar
relation tie ties
sever break
double twice
annual yearly
induct admit
musician artist singer
secede secession
"""

#: Phrases of one meaning, the first of each line standing for all. Those in capitals alone are in capitals in a text, others in any case.
PHRASES = """
South America | south american
North America | north american
Latin America | latin american
US | united states of america | united states | usa | american | americans | america
UK | united kingdom | great britain | britain | british
EU | european union
UN | united nations
France | french
Spain | spanish
Germany | german
Turkey | turkish | turkiye
Lebanon | lebanese
Netherlands | dutch
Switzerland | swiss
Poland | polish
Sweden | swedish
England | english
Scotland | scottish
Ireland | irish
China | chinese
Japan | japanese
Israel | israeli
Iran | iranian
Iraq | iraqi
Ukraine | ukrainian
Russia | russian federation | russian | russians
Italy | italian
Hungary | hungarian
Chile | chilean
Taiwan | taiwanese
Norway | norwegian
Denmark | danish
Finland | finnish
Mexico | mexican
Canada | canadian
Brazil | brazilian
Argentina | argentine
Pakistan | pakistani
Europe | european
Greece | greek
Egypt | egyptian
SaudiArabia | saudi arabia | saudi arabian | saudi
SouthKorea | south korea | south korean
NorthKorea | north korea | north korean | dprk
SouthSudan | south sudan
EquatorialGuinea | equatorial guinea
PapuaNewGuinea | papua new guinea
FrenchPolynesia | french polynesia
FrenchGuiana | french guiana
WestVirginia | west virginia
NewMexico | new mexico
NYC | new york city
LA | los angeles
DC | washington dc
Fed | federal reserve | fomc
SCOTUS | us supreme court | united states supreme court | supreme court of the united states | supreme court
CEO | chief executive officer | chief executive
PM | prime minister
MVP | most valuable player
MLB | baseball
NBA | basketball
NHL | ice hockey
AOC | alexandria ocasio-cortez | ocasio-cortez
PSG | paris saint-germain | paris st-germain
ECB | european central bank
BoE | bank of england
BoJ | bank of japan
DOJ | justice department | department of justice
SPX | s&p 500 | s&p500
UAE | united arab emirates
DRC | democratic republic of the congo | democratic republic of congo
F1 | formula one | formula 1
Manchester United | man united | man utd
Manchester City | man city
AI | artificial intelligence
AGI | artificial general intelligence
LLM | large language model
GDP | gross domestic product
CPI | consumer price index
IPO | initial public offering
GTA | grand theft auto
VP | vice president
Bitcoin | BTC
Ethereum | ETH
Solana | SOL
Tesla | TSLA
Nvidia | NVDA
Apple | AAPL
Microsoft | MSFT
Amazon | AMZN
Google | GOOGL
English Premier League | EPL
UCL | champions league
bps | basis points | basis point
25 bps | quarter point | quarter of a point | quarter percentage point
50 bps | half point | half a point | half percentage point
second | runner-up | runners-up
leave | no longer | drop out | step down | steps down | stepping down | go off air | off the air | off air
win | victory | came first | finish first | finishes first | finish 1st
release | come out | comes out | hit theaters | in theaters | go live | goes live | roll out
gay marriage | same-sex marriage | marriage equality
centenarian | 100th birthday | turn 100
return | come back | comes back
again | a second time | once more
1 trillion | trillionaire
1 billion | billionaire
worth | net worth
in | on the last day of
end of | EOY
shutdown | shut down
IPO | go public | goes public
takeover | take over
WW3 | world war iii | world war 3 | third world war
per year | a year | each year | annually
"""

#: Words of numbers below one hundred.
NUMBERS = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "thirteen": 13,
    "fourteen": 14,
    "fifteen": 15,
    "sixteen": 16,
    "seventeen": 17,
    "eighteen": 18,
    "nineteen": 19,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}


def _split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Words that say nothing about the subject.
STOP_WORDS = _split_words(
    """
    a an and are as at be been being both but by can could did do does each either end ever for from get given go going had has have having he
    held her his hold how if in into is it its likely many may might most next no nor not of off officially on only or our own probability
    question see she so some such than that the their them then there these they this those to too until value was we were what when where
    whether which who will with within would you your before after during between compared comparison according happen take place any new another again among while million billion trillion thousand dollar dollars usd percent day person people human humans somebody someone anyone v vs x official least once through other throughout rest time now
    """
)
#: Words that begin a question and are no names.
OPENERS = _split_words(
    """
    will does do did is are was were has have had by on in at after before the an a new what next when if can could should according who
    """
)
#: Titles before names.
TITLES = _split_words("president senator governor mr mrs dr sir king queen prime minister pope general justice judge")
