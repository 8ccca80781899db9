"""Scenes of the generated passages: sentences that state facts, and questions about them.

In a scene, several people, villages or things have several properties each, such as a timetable's
destinations with departures, arrivals and fares. Hence a fact is determined only by entity and
relation together. Fields in braces are `key`, the fact's entity, `value`, its property, and those
of the scene's setting.
"""

from typing import Literal, NamedTuple, cast

Kind = Literal["person", "place", "number", "year", "time", "day", "job", "goods", "vehicle"]


class Relation(NamedTuple):
    """A kind of fact about a scene's keys.

    Attributes:
      value: the kind of the values.
      statements: sentences that each state `value` of `key`.
      ask_value, ask_key: questions whose answer is the value, or the key.
    """

    value: Kind
    statements: tuple[str, ...]
    ask_value: tuple[str, ...]
    ask_key: tuple[str, ...]


class Scene(NamedTuple):
    """A kind of passage.

    Attributes:
      key: the kind of the entities.
      setting: fields that are sampled once for the passage, and their kinds.
      openings, closings: sentences before and after the facts.
    """

    key: Kind
    setting: dict[str, Kind]
    openings: tuple[str, ...]
    closings: tuple[str, ...]
    relations: tuple[Relation, ...]


def _relations(text: str) -> tuple[Relation, ...]:
    """Parses relations from paragraphs: the kind of the values, then statements, then questions.

    A question with the key asks for the value, and vice versa.
    """
    return tuple(_relation(*paragraph.split("\n")) for paragraph in text.strip().split("\n\n"))


def _relation(kind: str, *lines: str) -> Relation:
    sentences = [line.strip() for line in lines]
    questions = [line for line in sentences if line.endswith("?")]
    return Relation(
        cast(Kind, kind.strip(" :")),
        tuple(line for line in sentences if line not in questions),
        tuple(line for line in questions if "{key}" in line),
        tuple(line for line in questions if "{value}" in line),
    )


TIMETABLE = Scene(
    key="place",
    setting={"vehicle": "vehicle", "home": "place"},
    openings=(
        "This is the {vehicle} timetable that hangs on the wall in {home}.",
        "Every visitor to {home} soon learns the {vehicle} timetable by heart.",
        "A new {vehicle} timetable came into force in {home} this spring.",
    ),
    closings=(
        "Dogs travel free of charge.",
        "The timetable changes again in autumn.",
        "On holidays nothing runs at all.",
    ),
    relations=_relations(
        """
        time:
            The {vehicle} to {key} leaves at {value} sharp.
            At {value} the {vehicle} to {key} leaves, often half empty.
            Anyone who wants to go to {key} takes the {vehicle} that leaves at {value}.
            The {vehicle} leaves for {key} every day at {value}.
            When does the {vehicle} to {key} leave?
            At what time does the {vehicle} to {key} leave?
            At what time does the {vehicle} leave for {key}?
            Where does the {vehicle} go that leaves at {value}?
            To which place does the {vehicle} go that leaves at {value}?

        time:
            The {vehicle} from {key} arrives at {value}, if all goes well.
            At {value} the {vehicle} from {key} arrives, usually crowded.
            Visitors from {key} arrive with the {vehicle} at {value}.
            When does the {vehicle} from {key} arrive?
            At what time does the {vehicle} from {key} arrive?
            At what time do visitors from {key} arrive?
            Where does the {vehicle} come from that arrives at {value}?
            From which place does a {vehicle} arrive at {value}?

        number:
            A ticket to {key} costs {value} pence.
            The price of a ticket to {key} is {value} pence, bags included.
            Passengers pay {value} pence for a ticket to {key}.
            How many pence does a ticket to {key} cost?
            How many pence do passengers pay for a ticket to {key}?
            What is the price of a ticket to {key} in pence?
            To which place does a ticket cost {value} pence?
            Where can passengers go with a ticket for {value} pence?
        """
    ),
)

FAMILY = Scene(
    key="person",
    setting={"family": "person", "home": "place"},
    openings=(
        "The {family} family has owned the old mill near {home} for many years.",
        "In {home} everybody knows the {family} family, who are great talkers.",
        "Once a year the whole {family} family meets for dinner in {home}.",
    ),
    closings=(
        "At the table there is always one chair too few.",
        "They all still write long letters to each other.",
        "Nobody remembers who first had the idea.",
    ),
    relations=_relations(
        """
        place:
            {key} moved to {value} to study music.
            After school {key} packed a bag and moved to {value}.
            Some years ago {key} moved to {value} with three cats.
            Where did {key} move?
            To which place did {key} move?
            Which town did {key} move to?
            Who moved to {value}?
            Which member of the family moved to {value}?

        place:
            {key} was born in {value} on a stormy night.
            During a long journey {key} was born in {value}.
            It was in {value} that {key} was born.
            Where was {key} born?
            In which place was {key} born?
            What is the town where {key} was born?
            Who was born in {value}?
            Which member of the family was born in {value}?

        person:
            {key} married {value} in a small chapel.
            Last summer {key} married {value}, a friend from school.
            To everyone's delight {key} married {value} in May.
            Whom did {key} marry?
            Which person did {key} marry?
            Who married {value}?
            Which member of the family married {value}?

        job:
            {key} works as a {value} and likes it.
            For a living {key} works as a {value}.
            These days {key} works as a {value} at the market square.
            What does {key} work as?
            As what does {key} work?
            Who works as a {value}?
            Which member of the family works as a {value}?
        """
    ),
)

VALLEY = Scene(
    key="place",
    setting={"home": "place"},
    openings=(
        "The villages around {home} are quiet, and each has its own history.",
        "Walkers who start in {home} pass through several pretty villages.",
        "Around {home} lie some of the oldest villages of the valley.",
    ),
    closings=(
        "The best time for a visit is early summer.",
        "All of them can be reached on foot.",
        "In winter the snow lies deep on the paths.",
    ),
    relations=_relations(
        """
        year:
            The church of {key} was built in {value} from grey stone.
            In {value} the church of {key} was built by local farmers.
            The church that stands in {key} was built in {value}.
            When was the church of {key} built?
            In which year was the church of {key} built?
            In what year was the church in {key} built?
            Which village has a church that was built in {value}?

        year:
            A fire destroyed half of {key} in {value}.
            In {value} a great fire destroyed the market of {key}.
            The great fire that destroyed {key} broke out in {value}.
            When did a fire destroy {key}?
            In which year did a fire destroy {key}?
            In what year was the fire in {key}?
            Which village did a fire destroy in {value}?
            Where was there a great fire in {value}?

        number:
            Today {value} people live in {key}, most of them farmers.
            In {key} there live {value} people and even more sheep.
            The {value} people who live in {key} share one bakery.
            How many people live in {key}?
            How many people are there in {key}?
            Where do {value} people live?
            In which village do {value} people live?

        person:
            The mayor of {key} is {value}, who also keeps bees.
            {value} has been the mayor of {key} since last year.
            The people of {key} chose {value} as their mayor.
            Who is the mayor of {key}?
            What is the name of the mayor of {key}?
            Where is {value} the mayor?
            Of which village is {value} the mayor?
        """
    ),
)

SHOP = Scene(
    key="goods",
    setting={"owner": "person", "home": "place"},
    openings=(
        "At the end of the year {owner} counts everything in the shop in {home}.",
        "{owner} runs a small shop in {home} and writes down what is in it.",
        "The shop of {owner} is the only one for miles around {home}.",
    ),
    closings=(
        "Everything else has to be ordered.",
        "On rainy days hardly anyone comes in.",
        "The rest can wait until next week.",
    ),
    relations=_relations(
        """
        number:
            There are {value} {key} on the long shelf behind the counter.
            On the long shelf {value} {key} wait for buyers.
            The long shelf holds {value} {key}, neatly stacked.
            How many {key} are on the long shelf?
            How many {key} does the long shelf hold?
            Of which goods does the long shelf hold {value}?

        number:
            Down in the cellar there are {value} {key} in wooden boxes.
            The cellar holds {value} {key} that nobody has unpacked yet.
            In the cellar {value} {key} are kept for the winter.
            How many {key} are in the cellar?
            How many {key} does the cellar hold?
            Of which goods does the cellar hold {value}?

        person:
            Every other week {value} delivers the {key} on a handcart.
            The {key} are delivered by {value}, always before noon.
            It is {value} who delivers the {key} to the back door.
            Who delivers the {key}?
            By whom are the {key} delivered?
            What does {value} deliver?
            Which goods does {value} deliver?

        number:
            The {key} cost {value} crowns a dozen, no less.
            A dozen of the {key} costs {value} crowns.
            For a dozen of the {key} buyers pay {value} crowns.
            How many crowns do the {key} cost?
            How many crowns do buyers pay for a dozen of the {key}?
            What costs {value} crowns a dozen?
            Which goods cost {value} crowns?
        """
    ),
)

CLINIC = Scene(
    key="person",
    setting={"doctor": "person", "home": "place"},
    openings=(
        "It is a busy day for doctor {doctor}, who came to {home} years ago.",
        "Doctor {doctor} has a full diary today in the clinic at {home}.",
        "The clinic at {home} belongs to doctor {doctor}, and it is never empty.",
    ),
    closings=(
        "The coffee in the hall is free.",
        "After that the lights go out.",
        "There is no time for lunch.",
    ),
    relations=_relations(
        """
        time:
            {key} sees the doctor at {value} about a sore knee.
            At {value} the doctor sees {key}, who has a cough.
            The doctor will see {key} at {value} for a quick check.
            When does {key} see the doctor?
            At what time does the doctor see {key}?
            At what time will the doctor see {key}?
            Who sees the doctor at {value}?
            Whom does the doctor see at {value}?

        time:
            A taxi picks up {key} at {value} in front of the door.
            At {value} a taxi picks up {key} and drives off.
            The taxi that picks up {key} is due at {value}.
            When does a taxi pick up {key}?
            At what time does the taxi pick up {key}?
            When is the taxi due that picks up {key}?
            Whom does a taxi pick up at {value}?
            Who takes a taxi at {value}?

        number:
            {key} waits in room {value} with a newspaper.
            In room {value} there is {key}, who waits patiently.
            The nurse has asked {key} to wait in room {value}.
            In which room does {key} wait?
            What is the number of the room of {key}?
            Who waits in room {value}?
            Who is in room {value}?

        day:
            {key} has to come back on {value} for new tablets.
            On {value} the nurse expects {key} to come back.
            The nurse asks {key} to come back on {value}.
            When does {key} have to come back?
            On which day does {key} come back?
            Who has to come back on {value}?
            Who comes back on {value}?
        """
    ),
)

RACE = Scene(
    key="person",
    setting={"host": "person", "home": "place"},
    openings=(
        "Many people came to {home} for the race that {host} holds each year.",
        "The yearly race around the lake at {home} was opened by {host}.",
        "In spite of the rain {host} started the race in {home} on time.",
    ),
    closings=(
        "Afterwards there was soup for everyone.",
        "The rain stopped only in the evening.",
        "Next year the way will be longer.",
    ),
    relations=_relations(
        """
        number:
            {key} finished the race in {value} minutes, tired but happy.
            After {value} minutes {key} finished the race to loud cheers.
            It took {key} {value} minutes to finish the race.
            After how many minutes did {key} finish the race?
            How many minutes did it take {key} to finish the race?
            In how many minutes did {key} finish?
            Who finished the race in {value} minutes?
            Who took {value} minutes to finish the race?

        number:
            On the shirt of {key} was the number {value} in red.
            {key} wore the number {value} and a green cap.
            The number {value} was worn by {key}, as always.
            Which number did {key} wear?
            What number was worn by {key}?
            What was the number on the shirt of {key}?
            Who wore the number {value}?
            By whom was the number {value} worn?

        place:
            {key} had come from {value} by bicycle.
            From {value} came {key}, who had slept in a tent.
            All the way from {value} came {key} with two friends.
            Where did {key} come from?
            From which place did {key} come?
            Who came from {value}?
            Who had come all the way from {value}?

        person:
            {key} had trained with {value} all winter.
            All winter {key} had trained with {value} in the hills.
            For months {key} had trained with {value} before breakfast.
            With whom did {key} train?
            Who was it that {key} trained with?
            Who trained with {value}?
            Who had trained with {value}?
        """
    ),
)

SCENES = (TIMETABLE, FAMILY, VALLEY, SHOP, CLINIC, RACE)
