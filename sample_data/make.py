"""Writes the sample data beside this script: made-up text whose lengths behave like real text.

corpus.txt resembles an encyclopedia dump, reviews.csv shop and cinema reviews with a rare class,
so that the quick start and the tests need no download. Every word comes from the lists below.
"""

import csv
import io
import random
import re
from collections import ChainMap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

Words: TypeAlias = tuple[str, ...]
Scope: TypeAlias = ChainMap[str, Words]

SEED = 1867
CORPUS_BYTES = 400_000
REVIEWS = 720
POSITIVE_REVIEWS = 43


def lists(text: str) -> dict[str, Words]:
    """Word lists from "name: one | two | three", each continued on indented lines."""
    found = re.findall(r"^(\w.*?): ((?:.|\n )*)", text, re.MULTILINE)
    return {name: tuple(re.split(r"\s+\|\s+", re.sub(r"\s+", " ", words))) for name, words in found}


# {name} in an item is filled from the list of that name, {12-40} with a number in that range.
NAMES = lists("""
stem: Alder | Bren | Culver | Dunn | Eskel | Fenn | Garr | Hask | Hollin | Kelder | Lorn | Nether |
 Orm | Pell | Quarr | Rask | Skerr | Thrum | Uller | Wend | Yeld
ending: wick | holm | ness | moor | stead | combe | ford | by | haven | low | mouth | ton
foreign: Østervåg | Saint-Évrault | Žalina | Ållendorp | Łazowo | Þorsvík | Kérouan | Peñarra
person: {first} {last}
first: Agnes | Albert | Beatrice | Clara | Daniel | Edith | Frederick | George | Hannah | Isaac |
 Jonas | Louisa | Matthew | Nora | Oskar | Philippa | Samuel | Ursula | Zoë
last: Abernett | Bréhal | Carrow | Dunnage | Eastlake | Fairley | Grünwald | Hathersby | Jarrold |
 Lindqvist | Mossman | Núñez | Oakshott | Pellew | Quennell | Söderholm | Underhay | Vasey | Whitlow
founder: {person}
region: the Vale of {stem} | the {stem} Hills | the {stem} peninsula | the Isle of {stem} | the
 {stem} Marshes
few: three | four | five | six | seven | nine
season: spring | summer | autumn | winter
month: January | February | March | April | May | June | July | August | September | October |
 November | December
""")
PLACES = tuple(stem + ending for stem in NAMES["stem"] for ending in NAMES["ending"])

ARTICLE = lists("""
it: it | the {kind} | it | {name}
authority: the county council | the {town} Corporation | the Board of Works | the Duke of {town} |
 the Royal Society of {town} | the {town} Savings Bank
event: the great storm | the flood of {year} | the fire at {town} | the dispute with {authority} |
 the death of {person} | an outbreak of fever
source: the county archive | the {town} Gazette | a letter by {person} | the diary of {person} | a
 report to {authority} | the historian {person}
when: in {year} | by {month} {year} | in the {season} of {year} | {few} years after {event} | not
 long before {event} | on {2-28} {month} {year} | late in {year}
while: although money was short | because {authority} would not wait any longer | while talks with
 {authority} dragged on | although {person} advised against it
tail: as {source} records | to the dismay of {authority} | although {person} later denied it | which
 surprised even {person} | for reasons that remain unclear – no record of the inquiry survives
cost: at a cost of £{1200-9800} | despite protests from {town} | with some help from {authority} |
 to the relief of everybody at {town}
remark: the best news in years | a triumph of patience | no more than we deserve | sheer folly | the
 work of a lifetime | a great deal of fuss about nothing
told: {deed}. | {when}, {mishap}. | {when}, {deed}. | {mishap}, {tail}. | {deed}, {cost}. | {while},
 {deed}. | {when}, {mishap}, {tail}. | {source} states that {mishap}. | {mishap}, and {when} {deed}.
 | {when}, {deed}; {person} called this “{remark}”. | {mishap}; as a result, {deed}. | {when},
 {deed}, {cost}. | {source} records that {deed}, {cost}.
hedge: unusually for {region} | in the view of {person} | even today | according to {source} | as
 far as anyone can tell
note: as {source} notes | which visitors from {town} often remark on | though not everyone agrees |
 as {person} was the first to point out | which is rare in {region}
described: {form}. | {form}, {note}. | {hedge}, {form}. | {form}, and {form}. | {person} writes that
 {form}. | {hedge}, {form}, {note}. | {form}; {form}.
legacy: {it} appears on the coat of arms of {town} | a society of {110-980} members raises money for
 the study of {it} | the museum at {town} keeps {few} drawings of {it} by {person} | {person} wrote
 {few} stories about {it} | a festival in honour of {it} draws {1200-9800} visitors each {season} |
 {authority} pays for a yearly survey of {it} | a brewery in {town} sells an ale named after {it} |
 a song about {it} is known to most children in {region} | few residents of {place} can imagine the
 district without {it} | {person} made a film about {it} that is still shown in {town}
reception: {legacy}. | {legacy}, {note}. | {hedge}, {legacy}. | {legacy}, and {legacy}.
reception heading: Present day | In popular memory | Legacy and reception | Visitors and local life
""")

BUILT = ARTICLE | lists("""
name: {title}
lead: {name} is a {kind} in {region}, about {few} kilometres from {town}, planned by {founder} and
 opened in {founded}. | {name} is a disused {kind} near {place}, in {region}, which {founder}
 designed in {founded}. | {name}, known locally as “{nick}”, is a {kind} that has served {place} and
 {town} since {founded}.
nick: Old Patience | the Widow | Grey Meg | the Iron Aunt | the Long Wait
deed: work on a new {part} began under {person} | {authority} paid for repairs to the {part} | the
 {part} was rebuilt in {material} | {it} passed into the hands of {authority} | {person} was made
 chief {worker}, a post held before by {person} | {person} drew up plans for a second {part}, which
 were never carried out | {it} was fitted with a {part} from {town} | the {worker}s were given
 better pay and new quarters beside the {part} | {it} was opened to the public for {few} days a week
mishap: {it} was closed for {12-48} weeks | the {worker}s stopped work until their pay was raised |
 the {part} was damaged beyond repair | a survey found that the {part} had moved by {12-90}
 millimetres | the number of visitors fell by {12-80} per cent | {few} {worker}s were hurt when part
 of the {part} gave way | {it} stood empty for a time and the {part} was used as a store | the
 oldest {worker}, {person}, left after {12-48} years of service
told heading: Early history | Change of ownership | Construction and repairs
material: brick | local stone | timber | concrete
state: lined with {material} | painted dark green | almost hidden by the {part} | closed to visitors
 | sheltered by a low wall of {material} | reached by a flight of {12-95} steps | plain, even severe
form: the {part} is {state} | the {part}, designed by {person}, is {state} | the {part} is older
 than the {part} by about {12-40} years | visitors enter through a door beside the {part} | the
 {part} rests on a bed of {material} | the {part} can be seen from {town} on a clear day | the
 {part} is {state}, while the {part} is {state} | {detail} | {detail} | {detail}
described heading: Structure and setting | Site and layout | Operation and staff
caption: The {part} in {month} {year} | Two {worker}s beside the {part}, photographed by {person}
""")
LIGHTHOUSE = BUILT | lists("""
kind: lighthouse
title: {place} Lighthouse | {place} Point Light
part: lantern room | gallery | spiral stair | fog signal | main lens | oil store | boat landing
worker: keeper
detail: the light flashes every {few} seconds and is visible for {12-28} nautical miles | the reef
 below the tower lies {few} metres under water at high tide | seabirds strike the glass on misty
 nights | the supply boat calls every {few} weeks unless the sea is rough
""")
RAILWAY = BUILT | lists("""
kind: railway
title: {place} and {town} Railway
name: the {title}
part: engine shed | signal box | terminus | viaduct | goods yard | summit tunnel | booking hall
worker: driver
detail: the line climbs at one in {12-48} from {town} to the summit | trains run {few} times a day
 and take {28-95} minutes to reach {town} | coal, wool and milk make up most of the traffic | snow
 blocks the line for {few} weeks each winter
""")
TEA = BUILT | lists("""
kind: tea garden
title: {place} Tea Garden | {place} Tea Estate
part: drying house | upper terrace | packing shed | weighing room | water wheel | nursery bed
worker: picker
detail: the bushes thrive in volcanic ash and stand {few} feet apart | the tea tastes of honey, with
 a hint of wood smoke | the harvest begins in {month} and lasts {few} weeks | a good picker fills
 {12-28} baskets a day
""")
BEETLE = ARTICLE | lists("""
kind: beetle
title: {back}-backed {haunt} beetle
back: amber | copper | velvet | bronze | rust | pearl | slate
haunt: dune | bark | marsh | ground | thistle | heath
name: the {title}
lead: {name} ({latin}) is a species of beetle found in {habitat} in {region}, first described by
 {founder} in {founded}. | {name} ({latin}) is a beetle that {founder} discovered near {place} in
 {founded}.
latin: Carabiton obscurus | Lucanops pallidus | Phalerix littoralis | Dorylites vagans
part: thorax | head | left wing case | underside | third antennal segment | hind leg
habitat: old orchards | damp heath | dune grass | rotting birch logs | chalk grassland | reed beds
food: fallen pears | thistle | willow leaves | fungi | ivy flowers | nettles
enemy: shrews | nightjars | wasps | bats | spiders
shade: dull bronze | glossy black | finely haired | yellow-spotted | deeply grooved
deed: {person} found {12-95} specimens in {habitat} | {it} was recorded at {town} for the first time
 | a collector sold {few} pinned specimens to {authority} | {person} reared {few} generations of
 {it} in a garden shed | {authority} protected {few} sites near {town} | a second colony was
 discovered in {habitat} | {person} moved {it} to a different genus | volunteers counted {110-980}
 adults in a single night
mishap: {it} was believed to be extinct | numbers fell by {12-80} per cent | the original specimen
 was lost in the post | most of the {habitat} near {town} disappeared | an expedition led by
 {person} returned without a single specimen | {person} mistook {it} for a common pest
told heading: Discovery and naming | History of study | Decline and recovery
form: the {part} is {shade} | the female is larger than the male and has a {shade} {part} | adults
 live for {12-60} days and feed on {food} | the eggs are laid in {habitat} | {it} is most active in
 {month} | the larvae spend {few} months in {habitat} | the {part} of the male is longer than the
 {part} | a single female lays {110-480} eggs | the chief enemies of {it} are {enemy} and {enemy} |
 {it} escapes {enemy} by lying still for {few} minutes
described heading: Description and anatomy | Life cycle | Diet and habitat
caption: A female on {food}, {month} {year} | The {part} of a specimen collected by {person}
""")
TOPICS = (LIGHTHOUSE, RAILWAY, TEA, BEETLE)

FILM = lists("""
title: The {dim} {thing}
dim: Silent | Last | Crooked | Seventh | Hollow | Patient | Borrowed
thing: Harvest | Orchard | Witness | Ferryman | Letter | Winter | Lantern | Stranger
item: thriller | western | horror film | costume drama | space film | romance
who: my mother | my brother | our daughter | a neighbour | my wife | a friend
time: last {season} | in {month} | a few weeks ago | over the holidays | on a rainy Sunday
opening: We saw this {item} {time} with {who}. | {who} chose "{title}" {time}. | I have seen {few}
 {item}s by the same director. | "{title}" was sold to us as "{claim}". | I sat through all {95-180}
 minutes of this {item}. | I wanted to see "{title}" because of {actor}.
aside: The story is set in {month}, in a town by the sea. | {actor} plays a {job} and {actor} plays
 a {job}. | I have read the novel, which came out {few} years ago. | It begins with the {scene} and
 ends with the {scene}. | I usually enjoy a good {item}. | There were {few} of us in the cinema,
 {who} included.
bad: {fault}. | {fault}. | {fault}, and {fault}. | {sadly}, {fault}. | {fault}, so {result}. |
 {mild}, but {fault}. | What annoys me most is that {fault}. | They promise "{claim}", yet {fault}.
 | {fault}; {fault}. | I might have forgiven this, but {fault}. | {who} said the same: {fault}.
sadly: sadly | to make matters worse | worse still | as others here have said | to be honest
mild: I wanted to like it | it is not all bad | the idea is fine | I had read good things about it
fault: the {part} is {dull} | {actor} looks bored from the first scene to the last | nothing happens
 for the first {28-60} minutes | the {part} was plainly an afterthought | {actor} mumbles, and I
 could not follow half of it | the {scene} gives everything away | {who} fell asleep before the end
 | we laughed in all the wrong places | {actor} and {actor} have no spark between them | the {scene}
 goes on for {few} minutes too long | not one character behaves like a real person | the {part} and
 the {part} seem to belong to different films | I guessed the ending after {few} minutes | whoever
 wrote the script has never met a {job} | they spent the money on the {scene} and forgot the {part}
 | {few} people left before the {scene} | the music drowns every word of the {scene} | you can see
 the {scene} coming from a mile off
dull: dull | clumsy | tired | predictable | lazy | a mess | painfully slow
result: we left early | I checked the clock {few} times | nobody in our row clapped | I would not
 watch it again for money
claim: a masterpiece | the film of the year | moving and wise | a classic in the making
bad short: Avoid. | A waste of money. | Not recommended. | Very disappointed. | Never again! | Do
 NOT bother. | One star is generous. | Terrible. | Poor, just poor.
good: {merit}. | {merit}. | {merit}, and {merit}. | {gladly}, {merit}. | I had my doubts, but
 {merit}. | {merit}, so {reward}. | What I like most is that {merit}. | They promise "{claim}", and
 for once it is true: {merit}. | {who} agrees: {merit}.
gladly: better still | to my surprise | above all | as others here have said
merit: the {part} is {fine} | {actor} has never been better | I cried at the end, and so did {who} |
 {actor} and {actor} are a joy to watch together | the {scene} stays with you for days | every scene
 earns its place | the {part} could not be more {fine} | not a minute of it is wasted | the {scene}
 alone is worth the ticket | the {job} played by {actor} is the heart of the story
fine: moving | clever | gripping | beautiful | honest
reward: we are going again | I told everybody at work about it | the whole room clapped
good short: Highly recommended. | Worth every penny. | Wonderful. | I loved it! | A real pleasure.
actor: {person}
job: detective | nurse | farmer | teacher | sailor
part: script | soundtrack | ending | dialogue | plot | love story | camera work | casting
scene: chase | wedding | last scene | courtroom scene | fight in the rain | opening scene
""")


class Writer:
    """Fills templates from word lists."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.year = 0
        self._decks: dict[Words, list[str]] = {}

    def deal(self, words: Words) -> str:
        """One of the words, but none of those that were dealt last."""
        deck = self._decks.setdefault(words, list(words))
        deck.append(deck.pop(self.rng.randrange((len(deck) + 1) // 2)))
        return deck[-1]

    def fill(self, name: str, scope: Scope) -> str:
        """An item of the list of that name, its slots filled in turn."""
        if re.fullmatch(r"\d+-\d+", name):
            low, high = map(int, name.split("-"))
            return f"{self.rng.randint(low, high):,}"
        if name == "year":
            # Never earlier than the year before it, so that a history is told in order.
            self.year += self.rng.randint(0, 1 + (2019 - self.year) // 12)
            return str(self.year)
        return re.sub(r"\{(.+?)\}", lambda slot: self.fill(slot[1], scope), self.deal(scope[name]))

    def sentence(self, name: str, scope: Scope) -> str:
        """An item with its articles (a or an) and its capital letter put right."""
        text = re.sub(r"\b([Aa]) (?=[aeiou8AEIOU]|1[18]\b)", r"\1n ", self.fill(name, scope))
        return text[0].upper() + text[1:]

    def sentences(self, words: float, names: Words, scope: Scope) -> str:
        """Sentences from these lists until they have about so many words."""
        text = self.sentence(self.deal(names), scope)
        while len(text.split()) < words:
            text += " " + self.sentence(self.deal(names), scope)
        return text

    def length(self, median: float, spread: float) -> float:
        """A log-normal length, without the logarithms in which platforms differ."""
        for _ in range(6):
            median *= self.rng.uniform(1, spread) / self.rng.uniform(1, spread)
        return median


def subject(writer: Writer, topic: dict[str, Words]) -> Scope:
    """The lists of one article, with the facts it must not contradict already dealt."""
    scope = ChainMap({}, topic, NAMES)
    writer.year = writer.rng.randint(1780, 1910)
    # Articles are about one half of the places and mention the other.
    scope["place"] = (writer.deal(PLACES[::2]),)
    scope["town"] = tuple(writer.deal(PLACES[1::2]) for _ in range(4)) + (
        writer.deal(NAMES["foreign"]),
    )
    scope["person"] = tuple(writer.fill("person", scope) for _ in range(8))
    scope["founded"] = (str(writer.year),)
    for name in ("region", "founder", "title"):
        scope[name] = (writer.fill(name, scope),)
    return scope


def paragraph(writer: Writer, opening: str, names: Words, scope: Scope) -> str:
    """A paragraph whose first sentence calls its subject by name."""
    named = scope.new_child({"it": ("the {kind}", "{name}")})
    first = writer.sentence(opening, named)
    rest = writer.length(74, 2.0) - len(first.split())
    return f"{first} {writer.sentences(rest, names, scope)}"


def article(writer: Writer, topic: dict[str, Words]) -> Iterator[str]:
    """The lines of an article: its title, an introduction and three sections."""
    scope = subject(writer, topic)
    yield f"= {writer.sentence('title', scope)} ="
    yield paragraph(writer, "lead", ("described", "reception"), scope)
    for section in ("told", "described", "reception"):
        yield f"= = {writer.sentence(f'{section} heading', scope)} = ="
        for _ in range(writer.rng.randint(1, 4)):
            yield paragraph(writer, section, (section,), scope)
        if writer.rng.random() < 0.3:
            yield writer.sentence("caption", scope)


def corpus(writer: Writer) -> bytes:
    """Articles, an empty line between them."""
    text = b""
    while len(text) < CORPUS_BYTES:
        lines = article(writer, writer.rng.choice(TOPICS))
        text += b"\n" * bool(text) + "".join(f"{line}\n" for line in lines).encode()
    return text


def review(writer: Writer, mood: str) -> str:
    """A film review, the longer ones sometimes in two paragraphs."""
    scope = ChainMap({}, FILM, NAMES)
    for name, count in {"item": 1, "title": 1, "actor": 3}.items():
        scope[name] = tuple(writer.fill(name, scope) for _ in range(count))
    words = writer.length(50 if mood == "good" else 38, 2.6)
    if words < 12:
        return writer.sentences(words, (f"{mood} short",), scope)
    opening = writer.sentence("opening", scope) + " " if writer.rng.random() < 0.6 else ""
    halves = 1 if words < 100 else 2
    share = (words - len(opening.split())) / halves
    body = (writer.sentences(share, (mood, mood, mood, "aside"), scope) for _ in range(halves))
    text = opening + writer.rng.choice((" ", "\n")).join(body)
    return f"{text} {writer.sentence(f'{mood} short', scope)}" if words > 40 else text


def reviews(writer: Writer) -> bytes:
    """Reviews and their labels as CSV, few of them positive."""
    positive = set(writer.rng.sample(range(REVIEWS), POSITIVE_REVIEWS))
    table = io.StringIO(newline="")
    rows = csv.writer(table)
    rows.writerow(["id", "review", "label"])
    for row in range(REVIEWS):
        mood, label = ("good", "positive") if row in positive else ("bad", "negative")
        rows.writerow([row + 1, review(writer, mood), label])
    return table.getvalue().encode()


OUTPUTS: dict[str, Callable[[Writer], bytes]] = {"corpus.txt": corpus, "reviews.csv": reviews}


def main() -> None:
    """Writes each file from a seed of its own, so that a new one leaves the others as they are."""
    for name, make in OUTPUTS.items():
        data = make(Writer(random.Random(f"{SEED} {name}")))
        (Path(__file__).parent / name).write_bytes(data)
        print(f"{name}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
