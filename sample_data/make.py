"""Writes the sample data beside this script: made-up text whose lengths behave like real text.

corpus.txt resembles an encyclopedia dump, reviews.csv shop and cinema reviews with a rare class,
so that the quick start and the tests need no download. All of it comes from the lists below.
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


def listed(text: str) -> Words:
    """The items of a list written as "one | two | three", over any number of lines."""
    return tuple(" ".join(item.split()) for item in text.split("|"))


# In a template {slot} is filled from the list of that name, {12-40} with a number in that range.
STEMS = listed("""Aller | Bren | Cold | Dun | Esk | Fen | Garr | Hollin | Inver | Kelder | Lang |
    Marl | Nether | Orm | Pen | Quarr | Raven | Skerr | Thorn | Uller | Wether | Yar""")
ENDINGS = listed(
    "wick | holm | ness | moor | stead | combe | ford | by | haven | low | mouth | ton"
)
FOREIGN = listed(
    "Østervåg | Saint-Évrault | Žalina | Ållendorp | Łazowo | Þorsvík | Kérouan | Peñarra"
)
PLACES = tuple(stem + ending for stem in STEMS for ending in ENDINGS) + FOREIGN
FIRST = listed("""Agnes | Albert | Beatrice | Clara | Daniel | Edith | Frederick | George | Hannah |
    Isaac | Jonas | Katharine | Louisa | Matthew | Nora | Oskar | Philippa | Samuel | Ursula | Zoë""")
LAST = listed("""Abernett | Bréhal | Carrow | Dunnage | Eastlake | Fairley | Grünwald | Hathersby |
    Jarrold | Kettering | Lindqvist | Mossman | Núñez | Oakshott | Pellew | Quennell | Söderholm |
    Tanqueray | Underhay | Vasey | Whitlow | Yelland""")

COMMON = {
    "few": listed("three | four | five | six | seven | nine"),
    "season": listed("spring | summer | autumn | winter"),
    "month": listed("""January | February | March | April | May | June | July | August | September |
        October | November | December"""),
    "compass": listed("north | south-west | east | north-east | west | south"),
    "authority": listed("""the county council | the {town} Corporation | the Board of Works | the Duke
        of {town} | the Royal Society of {town} | the parish | the {town} Savings Bank"""),
    "event": listed("""the great storm | the flood of {year} | the fire at {town} | the wet summer of
        {year} | a long dispute with {authority} | the death of {person} | an outbreak of fever"""),
    "source": listed("""the county archive | the {town} Gazette | a letter by {person} | the diary of
        {person} | a report to {authority} | the historian {person}"""),
    "when": listed("""in {year} | by {month} {year} | in the {season} of {year} | {few} years after
        {event} | during {event} | not long before {event} | on {2-28} {month} {year} | late in {year}"""),
    "while": listed("""although money was short | because {authority} would not wait any longer | while
        talks with {authority} dragged on | although {person} advised against it | when word of the
        matter reached {town} | since nobody at {town} had raised an objection"""),
    "tail": listed("""as {source} records | to the annoyance of {authority} | at a cost of £{1200-9800}
        | although {person} later disputed this | which surprised even {person} | despite protests
        from {town} | for reasons that remain unclear – no record of the meeting survives"""),
    "remark": listed("""a costly mistake | the best news in years | a triumph of patience | no more than
        we deserve | sheer folly | the work of a lifetime | a great deal of fuss"""),
    "hedge": listed("""in most years | unusually for {region} | on the whole | for much of the year | as
        a rule | in the view of {person} | even today"""),
    "note": listed("""as {source} notes | a point that visitors from {town} often remark on | though not
        everyone agrees | as {person} was the first to point out | which is rare in {region}"""),
    "told": listed("""{main}. | {when}, {main}. | {main}, {tail}. | {while}, {main}. | {when}, {main},
        {tail}. | {source} states that {main}. | {main}, and {when} {main}. | {main}; {person} called
        this “{remark}”. | {when}, {main}, and {main}."""),
    "described": listed("""{main}. | {main}, {note}. | {hedge}, {main}. | {main}, and {main}. | {person}
        writes that {main}. | {hedge}, {main}, {note}. | {main}; {main}."""),
    "legacy": listed("""{it} appears on the coat of arms of {town} | a society of {110-980} members raises
        money for the study of {it} | the museum at {town} keeps {few} drawings of {it} by {person} | the
        novelist {person} wrote {few} stories about {it} | school classes from {town} learn about {it}
        every {season} | a festival in honour of {it} draws {1200-9800} visitors each {season} |
        {authority} pays for a yearly survey of {it} | {person} painted {it} more than {12-60} times | a
        brewery in {town} sells an ale named after {it} | a song about {it} is known to most children in
        {region} | the local buses carry a picture of {it} on their sides | few residents of {place} can
        imagine the district without {it} | {person} made a film about {it} that is still shown in {town}"""),
    "legacy heading": listed("""Present day | In popular memory | Legacy and reception | Research and
        conservation | Cultural significance | Visitors and local life"""),
    "it": listed("it | the {kind} | it | {name}"),
}  # fmt: skip
