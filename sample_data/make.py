"""Writes the sample data beside this script: made-up text whose lengths behave like real text.

corpus.txt resembles an encyclopedia dump, reviews.csv film reviews with a rare class, chat.jsonl
questions to an assistant and their answers, conversations.jsonl chats of up to six turns with long
and short answers, pretokenized.parquet whole articles as token ids, so that the quick start and the
tests need no download. Every word comes from the lists below.
"""

import csv
import io
import json
import random
import re
from collections import ChainMap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

Words: TypeAlias = tuple[str, ...]
Scope: TypeAlias = ChainMap[str, Words]

SEED = 1913
CORPUS_CHARACTERS = 396_000
REVIEWS = 720
POSITIVE_REVIEWS = 43
CHATS = 120
CONVERSATIONS = 60
PRETOKENIZED = 48


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
region: the Vale of {stem} | the {stem} Hills | the {stem} Valley | the Isle of {stem}
few: three | four | five | six | seven | nine
season: spring | summer | autumn | winter
month: January | February | March | April | May | June | July | August | September | October |
 November | December
""")
PLACES = tuple(stem + ending for stem in NAMES["stem"] for ending in NAMES["ending"])

ARTICLE = lists("""
it: it | the {kind} | it | {name}
authority: the county council | the {town} Corporation | the Board of Works | the Duke of {town} |
 the {town} Bank
event: the great storm of {year} | the flood of {year} | the fire of {year} | the election of {year}
source: the county archive | the {town} Gazette | a letter by {person} | the historian {person}
when: in {year} | by {month} {year} | in the {season} of {year} | {few} years after {event} | not
 long before {event} | on {2-28} {month} {year} | late in {year}
while: although money was short | because {authority} would not wait any longer | while talks with
 {authority} dragged on | although {person} advised against it
tail: as {source} records | to the dismay of {authority} | although {person} later denied it | which
 surprised even {person} | for reasons that remain unclear – no record of the inquiry survives
reaction: despite protests from {town} | with some help from {authority} | to the relief of {town}
remark: the best news in years | a triumph of patience | no more than we deserve | sheer folly | the
 work of a lifetime | a great deal of fuss about nothing
told: {deed}. | {when}, {mishap}. | {when}, {deed}. | {mishap}, {tail}. | {deed}, {reaction}. |
 {while}, {deed}. | {when}, {mishap}, {tail}. | {source} states that {mishap}. | {mishap}, and
 {when} {deed}. | {when}, {deed}; {person} called this “{remark}”. | {mishap}; as a result, {deed}.
 | {when}, {deed}, {reaction}. | {source} records that {deed}, {reaction}.
hedge: unusually for {region} | in the view of {person} | perhaps surprisingly | according to
 {source}
note: as {source} notes | which visitors from {town} often remark on | though not everyone agrees |
 as {person} was the first to point out | which is rare in {region}
described: {form}. | {form}, {note}. | {hedge}, {form}. | {form}, and {form}. | {person} writes that
 {form}. | {hedge}, {form}, {note}. | {form}; {form}.
legacy: {it} appears on the coat of arms of {town} | a society at {town} raises money for the study
 of {it} | the museum at {town} keeps {few} drawings of {it} by {person} | {person} wrote {few}
 stories about {it} | a festival at {town} in honour of {it} drew {1200-9800} visitors in {year} |
 {authority} pays for a yearly survey of {it} | a brewery in {town} sells an ale named after {it} |
 a song about {it} is known to most children in {region} | few residents of {place} can imagine the
 district without {it} | {person} made a film about {it} that is still shown in {town} | {it} was
 painted by {person} in {year} | school classes from {town} visit {place} because of {it}
reception: {legacy}. | {legacy}, {note}. | {hedge}, {legacy}. | {legacy}, and {legacy}.
reception heading: Present day | In popular memory | Legacy and reception | Visitors and local life
""")

BUILT = ARTICLE | lists("""
name: {title}
lead: {name} is a {kind} in {region}, about {few} kilometres from {town}, planned by {founder} and
 opened in {founded}. | {name} is one of the oldest {kind}s in {region}, designed by {founder} in
 {founded}. | {name}, known locally as “{nick}”, is a {kind} that has served {town} since {founded}.
nick: Old Patience | the Widow | Grey Meg | the Iron Aunt | the Long Wait
deed: work on a new {part} began under {person} | {authority} spent £{1200-9800} on the {part} | the
 {part} was rebuilt in {material} | {it} passed into the hands of {authority} | {person} became
 chief {worker} | {person} drew up plans for a second {part} | {it} was fitted with a {part} from
 {town} | the {worker}s were given better pay and new quarters beside the {part} | {it} was opened
 to the public for {few} weeks a year | {person} added an inscription to the {part}
mishap: {it} was closed for {12-48} weeks | the {worker}s stopped work until their pay was raised |
 the {part} was damaged beyond repair | a survey found that the {part} had moved by {12-90}
 millimetres | the number of visitors fell by {12-80} per cent | {few} {worker}s were hurt when part
 of the {part} gave way | {it} stood empty for a time and the {part} was boarded up | the oldest
 {worker}, {person}, left after {few} years of service
told heading: Early history | Change of ownership | Construction and repairs
material: brick | local stone | timber | concrete
state: lined with {material} | painted dark green | almost hidden by the {part} | closed to visitors
 | sheltered by a low wall of {material} | reached by a flight of {12-95} steps | plain, even severe
form: the {part} is {state} | the {part}, designed by {person}, is {state} | the {part} is older
 than the {part} by about {12-40} years | visitors enter through a door beside the {part} | the
 {part} rests on a base of {material} | the {part} can be seen from {town} on a clear day | the
 {part} is {state}, while the {part} is {state} | {detail} | {detail} | {detail}
described heading: Structure and setting | Site and layout | Operation and staff
caption: The {part} in {month} {year}, after {mishap} | Two {worker}s beside the {part}
""")
LIGHTHOUSE = BUILT | lists("""
kind: lighthouse
title: {place} Lighthouse | {place} Point Light
part: lantern room | gallery | spiral stair | fog signal | main lens | oil store | boat landing
worker: keeper
detail: the light is visible from {town}, {12-28} nautical miles away | the reef below the tower is
 covered at high tide | seabirds strike the glass on misty nights | supplies come from {town}
""")
RAILWAY = BUILT | lists("""
kind: railway
title: {place} and {town} Railway
name: the {title}
part: engine shed | signal box | terminus | viaduct | goods yard | summit tunnel | booking hall
worker: driver
detail: the line climbs steeply towards {town} | trains stop at {town} only on request | coal, wool
 and milk make up most of the traffic | snow blocks the line near {town} in winter
""")
TEA = BUILT | lists("""
kind: tea garden
title: {place} Tea Garden | {place} Tea Estate
part: drying house | upper terrace | packing shed | weighing room | water wheel | nursery bed
worker: picker
detail: the bushes thrive in volcanic ash | the tea tastes of honey, with a hint of wood smoke | the
 harvest begins after the first warm rain | a good picker fills {12-28} baskets a day
""")
BEETLE = ARTICLE | lists("""
kind: beetle
title: {place} {haunt} beetle
haunt: dune | bark | marsh | ground | thistle | heath | ivy | cave | willow | night
name: the {title}
lead: {name} ({latin}) is a species of beetle found in {habitat} in {region}, first described by
 {founder} in {founded}. | {name} ({latin}) was discovered near {place} by {founder} in {founded}.
latin: Carabiton obscurus | Lucanops pallidus | Phalerix littoralis | Dorylites vagans
part: thorax | head | left wing case | underside | third antennal segment | hind leg
habitat: old orchards | damp heath | dune grass | rotting birch logs | chalk grassland | reed beds
food: fallen pears | thistle | willow leaves | fungi | ivy flowers | nettles
enemy: shrews | nightjars | wasps | bats | spiders
shade: dull bronze | glossy black | finely haired | yellow-spotted | deeply grooved
deed: {person} found {12-95} specimens in {habitat} | {it} was recorded near {town} | a collector
 sold {few} pinned specimens to {authority} | {person} reared {few} generations of {it} in a garden
 shed | {authority} protected {few} sites near {town} | another colony was discovered in {habitat} |
 {person} moved {it} to a different genus | volunteers counted {110-980} adults in a single night |
 {person} published a drawing of the {part} | {person} described the eggs in a letter to {person} |
 {person} sent {few} specimens to the museum at {town}
mishap: {it} was believed to be extinct | numbers fell by {12-80} per cent | {few} specimens were
 lost in the post | most of the {habitat} near {town} disappeared | an expedition led by {person}
 returned without a single specimen | {person} mistook {it} for a common pest | the collection at
 {town} was damaged by damp | {person} was unable to find {it} anywhere near {town}
while: although few believed it | while the search near {town} went on | although {person} had given
 up hope
told heading: Discovery and naming | History of study | Decline and recovery
form: the {part} is {shade} | the female is larger than the male and has a {shade} {part} | adults
 kept by {person} lived for {12-60} days on {food} | the eggs are often laid in {habitat} | {it} is
 most active on warm nights | larvae from {town} had spent {few} months in {habitat} | the {part} of
 the male is longer than the {part} | {person} counted {110-480} eggs from a single female | its
 chief enemies are {enemy} and {enemy} | {it} escapes {enemy} by lying still | the larvae feed on
 {food}
described heading: Description and anatomy | Life cycle | Diet and habitat
caption: A female on {food}, photographed by {person} near {town} in {month} {year} | The {part} of
 a specimen collected by {person}
""")
TOPICS = (LIGHTHOUSE, RAILWAY, TEA, BEETLE)
INTRODUCTION = ("lead", "described", "reception")
# Paragraphs, at least and at most, and their median words: a history repeats itself the least.
SECTIONS = {"told": (4, 7, 105), "described": (1, 3, 75), "reception": (1, 1, 50)}

QUESTION = lists("""
system: You are a patient guide to {region}. | Answer in plain words. If you do not know, say so.
lead: What is {name}? | I came across {name} in an old book. What is it? | Tell me about {name},
 please. | {who} told me about {name}, and I could not find it on any map. What can you tell me?
who: my mother | my brother | a neighbour | a friend | my teacher
told: What is known of its history? | And how did it all begin? | Has it changed over the years?
described: Describe it, please. | What would I see there? | Could you go into more detail?
reception: Does anybody still care about it? | Is it worth a journey to {region}? | And today?
thanks: Thank you! | Thanks, that helps. | Good. I will tell {who} about it.
welcome: You are welcome. | Gladly. Enjoy {region}! | Any time.
""")

SHORT = lists("""
system: Be brief. | You know {region} well.
expert: Who knows more? | Who found that out?
expert answer: {person}. | {person}, I think.
far: Is it far from {town}? | Can I walk there from {town}?
far answer: Yes. | No. | Yes, in {few} hours. | No, {12-90} km.
since: Since when? | When was that?
since answer: {year}. | In {month} {year}.
sure: Are you sure? | Really?
sure answer: Yes. | No. | Yes, quite. | Not entirely.
told: And its history? | Go on.
reception: And today? | Who cares?
""")

FILM = lists("""
title: The Silent Harvest | The Last Orchard | The Crooked Witness | The Patient Ferryman | The
 Borrowed Letter | The Seventh Winter | The Hollow Lantern
item: thriller | western | horror film | costume drama | space film | romance
who: my mother | my brother | our daughter | a neighbour | my wife | a friend
time: last {season} | in {month} | a few weeks ago | over the holidays | on a rainy Sunday
opening: We saw this {item} {time} with {who}. | {who} chose "{title}" {time}. | I have seen {few}
 {item}s by the same director. | "{title}" was sold to us as "{claim}". | This {item} runs to
 {95-180} minutes. | I wanted to see "{title}" because of {actor}.
aside: The story is set in {month}, in a town by the sea. | {actor} and {actor} play two rivals. | I
 have read the novel it is based on. | There is a {scene}, as in every {item}. | I usually enjoy a
 good {item}. | {who} and I talked about it all the way home.
bad: {fault}. | {fault}. | {fault}, and {fault}. | {moreover}, {fault}. | {fault}, so {result}. |
 {mild}, but {fault}. | What annoys me most is that {fault}. | They promise "{claim}", yet {fault}.
 | {fault}; {fault}. | I might have forgiven this, but {fault}. | {who} said the same: {fault}.
moreover: above all | on top of that | to be honest | as others here have said
mild: I wanted to like it | it is not all bad | the idea is fine | I had read good things about it
fault: the {part} is {dull} | {actor} looks bored from the first scene to the last | nothing happens
 for the first {28-60} minutes | the {part} was plainly an afterthought | {actor} mumbles, and I
 could not follow half of it | the {scene} gives everything away | {who} fell asleep before the end
 | we laughed in all the wrong places | {actor} and {actor} have no spark between them | the {scene}
 goes on for {few} minutes too long | not one character behaves like a real person | the {part} and
 the {part} seem to belong to different films | I guessed the ending after {few} minutes | whoever
 wrote the script has never met a {job} | they spent the money on the {scene} and forgot the {part}
 | {few} people left before the {scene} | the music drowns every word of the {scene}
dull: dull | clumsy | tired | predictable | lazy | a mess | painfully slow
result: we left early | I checked the clock {few} times | nobody in our row clapped | we felt
 cheated
claim: a masterpiece | the film of the year | moving and wise | a classic in the making
bad short: Avoid. | A waste of money. | Not recommended. | Very disappointed. | Never again! | Do
 NOT bother. | One star is generous. | Terrible. | Poor, just poor.
good: {merit}. | {merit}. | {merit}, and {merit}. | {moreover}, {merit}. | I had my doubts, but
 {merit}. | {merit}, so {reward}. | What I like most is that {merit}. | They promise "{claim}", and
 for once it is true: {merit}. | {who} agrees: {merit}.
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
scene: chase | wedding | trial | fight in the rain | dance scene | duel
""")
# How many of these one review speaks of.
FILM_FACTS = {"item": 1, "title": 1, "month": 1, "who": 2, "actor": 3, "scene": 3}


class Writer:
    """Fills templates from word lists."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.year = 0
        self._decks: dict[Words, list[str]] = {}

    def deal(self, words: Words) -> str:
        """One of the words, but none of those that were dealt last."""
        if words not in self._decks:
            self._decks[words] = self.rng.sample(words, len(words))
        deck = self._decks[words]
        deck.append(deck.pop(self.rng.randrange((len(deck) + 2) // 3)))
        return deck[-1]

    def fill(self, name: str, scope: Scope) -> str:
        """An item of the list of that name, its slots filled in turn."""
        if re.fullmatch(r"\d+-\d+", name):
            low, high = map(int, name.split("-"))
            return f"{self.rng.randint(low, high):,}"
        if name == "year":
            # Never earlier than the year before it, so that a history is told in order.
            self.year += self.rng.randint(0, 1 + (2019 - self.year) // 8)
            return str(self.year)
        return re.sub(r"\{(.+?)\}", lambda slot: self.fill(slot[1], scope), self.deal(scope[name]))

    def sentence(self, name: str, scope: Scope) -> str:
        """An item with its articles (a or an) and its capital letter put right."""
        text = re.sub(r"\b([Aa]) (?=[aeiou8AEIOU]|1[18]\b)", r"\1n ", self.fill(name, scope))
        return text[0].upper() + text[1:]

    def sentences(self, words: float, names: Words, scope: Scope) -> str:
        """Sentences from these lists until they have about so many words."""
        text = self.sentence(names[0], scope)
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
    writer.year = writer.rng.randint(1820, 1910)
    # Articles are about one half of the places and mention the other.
    scope["place"] = (writer.deal(PLACES[::2]),)
    scope["town"] = tuple(writer.deal(PLACES[1::2] + NAMES["foreign"]) for _ in range(5))
    scope["founded"] = (str(writer.year),)
    for name in ("region", "founder", "title"):
        scope[name] = (writer.fill(name, scope),)
    return scope


def paragraph(writer: Writer, median: float, names: Words, scope: Scope) -> str:
    """A paragraph whose first sentence calls its subject by name."""
    words = writer.length(median, 1.75)
    first = writer.sentence(names[0], scope.new_child({"it": ("the {kind}", "{name}")}))
    return f"{first} {writer.sentences(words - len(first.split()), names[1:] or names, scope)}"


def article(writer: Writer, topic: dict[str, Words]) -> Iterator[str]:
    """The lines of an article: its title, an introduction and its sections."""
    scope = subject(writer, topic)
    yield f"= {writer.sentence('title', scope)} ="
    yield paragraph(writer, 60, INTRODUCTION, scope)
    for section, (least, most, median) in SECTIONS.items():
        yield f"= = {writer.sentence(f'{section} heading', scope)} = ="
        for _ in range(writer.rng.randint(least, most)):
            yield paragraph(writer, median, (section,), scope)
        if writer.rng.random() < 0.2:
            yield writer.sentence("caption", scope)


def corpus(writer: Writer) -> bytes:
    """Articles, an empty line between them."""
    text = ""
    while len(text) < CORPUS_CHARACTERS:
        text += "\n".join(article(writer, writer.rng.choice(TOPICS))) + "\n\n"
    return text.removesuffix("\n").encode()


def review(writer: Writer, mood: str) -> str:
    """A film review, the longer ones sometimes in two paragraphs."""
    scope = ChainMap({}, FILM, NAMES)
    for name, count in FILM_FACTS.items():
        scope[name] = tuple(writer.fill(name, scope) for _ in range(count))
    words = writer.length(50 if mood == "good" else 34, 2.35)
    if words < 9:
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


def chat(writer: Writer) -> dict[str, object]:
    """Questions about one subject, their answers, and which questions they were."""
    topic = writer.rng.choice(TOPICS)
    scope = subject(writer, topic)
    asked = ["lead", *writer.rng.sample(list(SECTIONS), writer.rng.randint(0, len(SECTIONS)))]
    questions = scope.new_child(QUESTION)
    messages = []
    if writer.rng.random() < 0.3:
        messages.append(("system", writer.sentence("system", questions)))
    for name in asked:
        first = name == "lead"
        median, told = (60, INTRODUCTION) if first else (SECTIONS[name][2], (name,))
        messages.append(("user", writer.sentence(name, questions)))
        messages.append(("assistant", paragraph(writer, median, told, scope)))
    if writer.rng.random() < 0.4:
        messages.append(("user", writer.sentence("thanks", questions)))
        messages.append(("assistant", writer.sentence("welcome", questions)))
    return {
        "messages": [{"role": role, "content": content} for role, content in messages],
        "tags": [topic["kind"][0], *sorted(asked[1:])],
    }


def chats(writer: Writer) -> bytes:
    """Chats with their tags, one object a line."""
    lines = (json.dumps(chat(writer), ensure_ascii=False) + "\n" for _ in range(CHATS))
    return "".join(lines).encode()


def conversation(writer: Writer) -> dict[str, object]:
    """One to six turns: most are answered in a word or two, some at length."""
    scope = subject(writer, writer.rng.choice(TOPICS)).new_child(SHORT)
    messages = []
    if writer.rng.random() < 0.25:
        messages.append(("system", writer.sentence("system", scope)))
    for _ in range(min(writer.rng.randint(1, 6), writer.rng.randint(1, 6))):
        if writer.rng.random() < 0.85:
            asked = writer.rng.choice(("expert", "far", "since", "sure"))
            answer = writer.sentence(f"{asked} answer", scope)
        else:
            asked = writer.rng.choice(("told", "reception"))
            answer = writer.sentences(writer.length(20, 2.4), (asked,), scope.parents)
        messages.append(("user", writer.sentence(asked, scope)))
        messages.append(("assistant", answer))
    return {"messages": [{"role": role, "content": content} for role, content in messages]}


def conversations(writer: Writer) -> bytes:
    """Chats without spaces between their fields, one object a line."""
    made = (conversation(writer) for _ in range(CONVERSATIONS))
    lines = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) + "\n" for each in made)
    return "".join(lines).encode()


def pretokenized(writer: Writer) -> bytes:
    """Articles as the ids of ByT5's vocabulary: a byte's number + 3, and 1 at the end. The first
    half of the paragraphs is a prompt, which carries no loss.
    """
    topics = [writer.rng.choice(TOPICS) for _ in range(PRETOKENIZED)]
    articles = [list(article(writer, topic)) for topic in topics]
    texts = ["\n".join(paragraphs).encode() for paragraphs in articles]
    ids = [[byte + 3 for byte in text] + [1] for text in texts]
    halves = ["\n".join(each[: len(each) // 2]).encode() for each in articles]
    prompts = [len(half) + 1 if half else 0 for half in halves]
    masks = [[0] * n + [1] * (len(own) - n) for n, own in zip(prompts, ids, strict=True)]
    kinds = [topic["kind"][0] for topic in topics]
    columns = {
        "input_ids": pa.array(ids, pa.list_(pa.int32())),
        "completion_mask": pa.array(masks, pa.list_(pa.int8())),
        "kind": kinds,
    }
    table = pa.table(columns)
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd", compression_level=19)
    return file.getvalue()


def sft(_: Writer) -> bytes:
    """A configuration of TRL's SFTTrainer that trains on the chats."""
    lines = (
        *("datasets:", "  - path: json", "    data_files: sample_data/chat.jsonl"),
        *("max_length: 512", "assistant_only_loss: true", "per_device_train_batch_size: 4"),
        *("gradient_accumulation_steps: 2", "num_train_epochs: 3", "warmup_steps: 0.03"),
    )
    return "".join(f"{line}\n" for line in lines).encode()


OUTPUTS: dict[str, Callable[[Writer], bytes]] = {
    "corpus.txt": corpus,
    "reviews.csv": reviews,
    "chat.jsonl": chats,
    "conversations.jsonl": conversations,
    "pretokenized.parquet": pretokenized,
    "sft.yaml": sft,
}


def main() -> None:
    """Writes each file from a seed of its own, so that a new one leaves the others as they are."""
    for name, make in OUTPUTS.items():
        data = make(Writer(random.Random(f"{SEED} {name}")))
        (Path(__file__).parent / name).write_bytes(data)
        print(f"{name}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
