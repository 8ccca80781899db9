"""Sentence pairs from file to batch: complete, without leaks, one line for each mistake."""

import collections
import gzip
import hashlib
import logging
from pathlib import Path

import numpy as np
import pytest

from common_jax.errors import UserError
from common_jax.io.files import read_lines
from csan_jax.config import DataConfig
from csan_jax.data.dataset import TranslationData
from csan_jax.data.prepare import Builder
from tests.real import needs_real_data, real_data

COLOURS = ["red", "green", "blue", "black", "white", "grey", "brown", "pink"]
FARBEN = ["rote", "grüne", "blaue", "schwarze", "weiße", "graue", "braune", "rosa"]
THINGS = ["cat", "lamp", "clock", "flower", "bird", "door", "cup", "shop"]
DINGE = ["Katze", "Lampe", "Uhr", "Blume", "Meise", "Tür", "Tasse", "Werkstatt"]
PAIRS = [
    (f"the {colour} {thing} {n}", f"die {farbe} {ding} {n}")
    for n in range(4)
    for colour, farbe in zip(COLOURS, FARBEN, strict=True)
    for thing, ding in zip(THINGS, DINGE, strict=True)
]


def config(folder, **options) -> DataConfig:
    fields = dict(dir=str(folder), cache_dir=str(folder / "cache"), vocab_size=330, max_length=40)
    fields |= dict(source_language="en", target_language="de", batch_tokens=128, max_shapes=2)
    return DataConfig(**(fields | options))


def prepared(*args, **options) -> TranslationData:
    data = TranslationData(config(*args, **options))
    data.prepare()
    data.report()
    return data


def write(folder: Path, name: str, pairs) -> None:
    for side, language in enumerate(("en", "de")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"{name}.{language}").write_bytes(text.encode())


def table(folder: Path, lines, name="all.tsv.gz") -> None:
    (folder / name).write_bytes(gzip.compress("".join(f"{x}\n" for x in lines).encode()))


@pytest.fixture
def folder(tmp_path) -> Path:
    write(tmp_path, "train", PAIRS[:200])
    write(tmp_path, "dev", PAIRS[200:220])
    write(tmp_path, "test", PAIRS[220:250])
    return tmp_path


def sizes(data):
    """For each split the number of pairs, and of dropped ones by reason."""
    counts = lambda dropped: {reason: entry["count"] for reason, entry in dropped.items()}
    splits = data.split_sizes().items()
    return {split: {"pairs": pairs, "dropped": counts(d)} for split, (pairs, d) in splits}


def train_pairs(data: TranslationData) -> list[tuple[str, str]]:
    """The training text as in the batches, in corpus order; rows have the end symbol and
    padding."""
    pairs = {}
    for batch in data.train_batches().epoch(0):
        for index, source, target in zip(*batch.values(), strict=True):
            if index < 0:
                assert not source.any() and not target.any()
                continue
            texts = []
            for row, subwords in (source, data.source_subwords), (target, data.target_subwords):
                length = np.count_nonzero(row)
                assert row[length - 1] == 1 and not row[length:].any()
                texts += subwords.decode([row[: length - 1]])
            assert index not in pairs
            pairs[int(index)] = tuple(texts)
    assert sorted(pairs) == list(range(len(pairs)))
    return [pairs[index] for index in sorted(pairs)]


@pytest.mark.parametrize("joint", [True, False])
def test_parallel_files(folder, joint):
    data = prepared(folder, joint_vocabulary=joint, vocab_size=330 if joint else 310)
    assert train_pairs(data) == PAIRS[:200]
    assert (data.source_subwords is data.target_subwords) == joint
    for split, rows in (("dev", PAIRS[200:220]), ("test", PAIRS[220:250])):
        assert list(zip(data.sources(split), data.references(split), strict=True)) == rows
        indices = [i for b in data.split_batches(split, 64).epoch(0) for i in b["index"] if i >= 0]
        assert sorted(indices) == list(range(len(rows)))
    pieces = sum(len(data.source_subwords.encode([s])[0]) + 1 for s, _ in PAIRS[:200])
    assert sizes(data)["train"]["pairs"] == 200
    assert data._corpus("train").tokens("source") == pieces
    assert sizes(data)["train"]["dropped"] == {}


def test_preparing_again_finds_it(folder):
    one, other = prepared(folder), prepared(folder, batch_tokens=64, max_shapes=1)
    assert one.path == other.path
    (folder / "test.de").write_text((folder / "test.de").read_text().replace("Katze", "Kutze"))
    assert prepared(folder).path != one.path
    for changed in ({"max_length": 30}, {"vocab_size": 320}, {"joint_vocabulary": False}):
        small = {"vocab_size": 310} if "joint_vocabulary" in changed else {}
        assert prepared(folder, **changed, **small).path != other.path


def test_each_side_may_have_its_own_vocabulary_size(folder):
    data = prepared(folder, joint_vocabulary=False, source_vocab_size=300, target_vocab_size=305)
    assert (data.source_subwords.size, data.target_subwords.size) == (300, 305)
    assert train_pairs(data) == PAIRS[:200]
    with pytest.raises(UserError, match=r"data\.target_vocab_size=9000: this text has pieces for"):
        prepared(folder, joint_vocabulary=False, vocab_size=300, target_vocab_size=9000)


def test_equal_sizes_are_what_vocab_size_says(folder):
    """The fingerprint is that of versions without sizes for each side."""
    options = [
        {"vocab_size": 310},
        {"vocab_size": 310, "source_vocab_size": 310},
        {"source_vocab_size": 310, "target_vocab_size": 310},
        {"source_vocab_size": 310, "target_vocab_size": 305},
    ]
    configs = [config(folder, joint_vocabulary=False, **each) for each in options]
    fingerprints = [Builder(each).fingerprint() for each in configs]
    assert fingerprints[0] == fingerprints[1] == fingerprints[2]
    assert [each["vocabulary"] for each in (fingerprints[0], fingerprints[3])] == [
        [False, 310],
        [False, 310, 305],
    ]
    assert set(fingerprints[0]) == set(fingerprints[3])


def test_order_is_a_function_of_the_seed(folder):
    data = prepared(folder)

    def order(seed, epoch):
        return [batch["index"].tolist() for batch in data.train_batches(seed).epoch(epoch)]

    assert order(1, 2) == order(1, 2) != order(2, 2)
    assert order(1, 3) != order(1, 2)


def test_vocabulary_travels_alone(folder, tmp_path_factory):
    data, run = prepared(folder), tmp_path_factory.mktemp("run")
    data.write_vocabulary(run)
    alone = TranslationData(data.config)
    alone.read_vocabulary(run)
    assert alone.source_subwords == data.source_subwords
    alone.prepare()
    other = tmp_path_factory.mktemp("other")
    for split in ("train", "dev", "test"):
        write(other, split, [(s.upper(), t.upper()) for s, t in PAIRS])
    stranger = TranslationData(config(other))
    stranger.read_vocabulary(run)
    with pytest.raises(UserError, match="other subwords than the run has"):
        stranger.prepare()
    with pytest.raises(UserError, match=r"source\.model: No such file"):
        TranslationData(config(folder, joint_vocabulary=False)).read_vocabulary(run)


def test_before_prepare(folder):
    with pytest.raises(RuntimeError, match="prepare"):
        TranslationData(config(folder)).train_batches()


def test_generated(tmp_path):
    options = dict(source="generated", examples=400, holdout_size=30, vocab_size=600, dir="")
    data = prepared(tmp_path, **options)
    from csan_jax.data.synthetic import generate

    assert train_pairs(data) == list(generate(400, 0, "train"))
    assert list(zip(data.sources("dev"), data.references("dev"), strict=True)) == list(
        generate(30, 0, "dev")
    )
    assert prepared(tmp_path, **options).path == data.path
    assert prepared(tmp_path, **options, seed=1).path != data.path
    with pytest.raises(UserError, match=r"data\.holdout_size=1000000000: at most"):
        prepared(tmp_path, **(options | {"holdout_size": 10**9}))


TABLE = [f"{s}\t{t} {n}\tCC-BY {n}" for s, t in PAIRS for n in range(1 + len(s) % 3)]


def held_out(folder, **options) -> TranslationData:
    table(folder, TABLE)
    return prepared(
        folder,
        train="all.tsv",
        columns="1,2",
        **({"dev": "", "test": "", "holdout_size": 20} | options),
    )


def test_held_out_sentences_are_in_one_split(tmp_path):
    data = held_out(tmp_path)
    parts = [train_pairs(data)]
    parts += [list(zip(data.sources(s), data.references(s), strict=True)) for s in ("dev", "test")]
    sources = [{source for source, _ in part} for part in parts]
    assert len(sources[1]) == len(sources[2]) == 20 and len(sources[0]) == len(PAIRS) - 40
    assert not sources[0] & sources[1] | sources[0] & sources[2] | sources[1] & sources[2]
    expected = collections.Counter(tuple(line.split("\t")[:2]) for line in TABLE)
    assert collections.Counter(pair for part in parts for pair in part) == expected


def test_held_out_choice_is_a_function_of_the_seed(tmp_path):
    dev = held_out(tmp_path).sources("dev")
    assert held_out(tmp_path, max_length=39).sources("dev") == dev
    assert held_out(tmp_path, seed=1).sources("dev") != dev
    write(tmp_path, "test", PAIRS[:9])
    only_dev = held_out(tmp_path, test="test")
    assert only_dev.sources("dev") == dev and only_dev.sources("test") == [s for s, _ in PAIRS[:9]]


def test_held_out_needs_enough(tmp_path):
    with pytest.raises(
        UserError, match=r"holdout_size=200: .*tsv\.gz:.* 256 .*at most 127 are possible"
    ):
        held_out(tmp_path, holdout_size=200)
    held_out(tmp_path, holdout_size=127, vocab_size=300)


def test_columns_by_number(tmp_path):
    table(tmp_path, [f"{n}\t{t}\tx\t{s}" for n, (s, t) in enumerate(PAIRS)])
    options = dict(train="all.tsv.gz", dev="all.tsv", test="all.tsv", columns="4,2")
    assert train_pairs(prepared(tmp_path, **options)) == PAIRS
    with pytest.raises(UserError, match=r"all\.tsv\.gz:1: 4 columns where 5 are needed"):
        prepared(tmp_path, **options | {"columns": "2,-3"})  # both are the second of four
    with pytest.raises(UserError, match="or number it from 1"):
        prepared(tmp_path, **options | {"columns": "2,2"})


LONG = ("the cat " * 30, "die Katze " * 30)


def test_long_training_pairs_are_dropped_and_reported(folder, caplog):
    write(folder, "train", [*PAIRS[:100], LONG, *PAIRS[100:200], (LONG[0], "kurz")])
    data = prepared(folder)
    assert train_pairs(data) == PAIRS[:200]
    assert sizes(data)["train"]["dropped"] == {"over data.max_length=40 pieces": 2}
    (message,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "kept 200 pairs, left out 2 over data.max_length=40 pieces" in message
    assert f"{folder}/train.en:101, {folder}/train.en:202" in message


def test_the_limit_counts_the_end_symbol(folder):
    longest = max(row.max() for row in prepared(folder)._corpus("train").lengths("source"))
    assert sizes(prepared(folder, max_length=int(longest)))["train"]["dropped"].keys() <= {
        f"over data.max_length={longest} pieces"
    }
    both = prepared(folder)._corpus("train").lengths("source", "target").max(1)
    for limit in (both.max(), both.max() - 1):
        dropped = sizes(prepared(folder, max_length=int(limit)))["train"]["dropped"]
        assert sum(dropped.values()) == (both > limit).sum()


def test_evaluation_keeps_and_truncates_nothing(folder, caplog):
    write(folder, "dev", [PAIRS[200], LONG])
    data = prepared(folder)
    assert data.sources("dev") == [PAIRS[200][0], LONG[0]]
    (message,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    lengths = {split: data.input_lengths(split).max() for split in ("train", "dev")}
    assert message == (
        f"dev: 1 of 2 pairs have up to {lengths['dev']} tokens, where training has at most "
        f"{lengths['train']} (number 2)"
    )
    rows = [b for b in data.split_batches("dev", 64).epoch(0) if 1 in b["index"]]
    width = rows[0]["source"].shape[1]
    assert np.count_nonzero(rows[0]["source"][rows[0]["index"] == 1]) == width > 40


BAD = {
    "empty source": ("", "ja"),
    "empty target": ("yes", " \t"),
    "both sides empty": ("", ""),
}


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize("kind", BAD)
def test_bad_pairs_in_parallel_files(folder, caplog, kind, split):
    rows = PAIRS[:200]
    write(folder, split, [*rows[:4], BAD[kind], *rows[4:]])
    language = "de" if kind == "empty target" else "en"
    with pytest.raises(UserError, match=rf"{split}\.{language}:5: {kind}; .*on_bad_example=skip"):
        prepared(folder)
    data = prepared(folder, on_bad_example="skip")
    assert sizes(data)[split]["dropped"] == {kind: 1}
    assert f"1 {kind} ({folder}/{split}.{language}:5)" in caplog.text
    if split == "train":
        assert train_pairs(data) == rows
    else:
        assert data.sources(split) == [source for source, _ in rows]


SPACES = "\t\u00a0\r\x0b\x0c\x1f\x85\u2009\u2028\u202f\u3000"


def other_spaces(folder) -> None:
    """Writes the pairs with other white space within each side."""
    for name, pairs in (("train", PAIRS[:200]), ("dev", PAIRS[200:220]), ("test", PAIRS[220:250])):
        spaced = [
            tuple(side.replace(" ", SPACES[n % len(SPACES)], 1) for side in pair)
            for n, pair in enumerate(pairs)
        ]
        write(folder, name, spaced)


def test_other_white_space_is_read_as_blanks(folder, caplog):
    expected = prepared(folder, white_space="keep")
    assert prepared(folder).digests() == expected.digests()  # without other white space
    other_spaces(folder)
    before = prepared(folder, white_space="keep")
    caplog.set_level(logging.INFO)
    data = prepared(folder)
    assert data.path != before.path  # not that of the earlier rule, in the same cache
    assert data.digests() == expected.digests() != before.digests()
    assert data.references("test") == [target for _, target in PAIRS[220:250]]
    assert "dev: 20 of 20 pairs have tabs, NBSP, CR or other white space" in caplog.text
    held_out = prepared(folder, dev="", holdout_size=20)
    texts = [*held_out.sources("dev"), *held_out.references("dev")]
    assert len(texts) == 40 and not {*SPACES} & {*"".join(texts)}


def test_text_that_is_already_cut_into_pieces(folder, caplog):
    marked = [tuple("▁" + side.replace(" ", " ▁") for side in pair) for pair in PAIRS[220:250]]
    write(folder, "test", [*marked[:15], *PAIRS[235:250]])
    assert prepared(folder).references("test")[0] == " " + PAIRS[220][1].replace(" ", "  ")
    write(folder, "test", [*marked[:16], *PAIRS[236:250]])
    message = "data.test=test: 16 of 30 pairs have ▁ (U+2581): already cut into pieces"
    assert message in fails(folder)
    joined = [tuple(side.replace(" ", "@@ ") for side in pair) for pair in PAIRS[220:250]]
    write(folder, "test", joined)
    prepared(folder)
    assert "test: 30 of 30 pairs have @@, as text that subword-nmt" in caplog.text
    assert "train: " not in caplog.text


def test_examples_in_several_splits_are_counted(folder, caplog):
    assert prepared(folder).warnings == []
    assert "also in" not in caplog.text
    write(folder, "dev", [*PAIRS[190:210], PAIRS[190]])
    write(folder, "test", [*PAIRS[205:220], (PAIRS[0][0], PAIRS[1][1])])
    assert prepared(folder).warnings == []
    shared = {line for line in caplog.messages if "also in" in line}
    assert shared == {
        "11 of 21 pairs of dev are also in train",
        "5 of 16 pairs of test are also in dev",
    }
    write(folder, "test", PAIRS[195:200])
    (warning,) = prepared(folder).warnings
    assert warning.startswith("dev and test have the same examples") and warning in caplog.text
    assert len(prepared(folder, test="dev").warnings) == 1


def test_the_same_file_as_train_and_another_split(folder):
    message = f"{folder}/train is also in data.train; name other files, or hold examples out"
    assert f"data.dev=train: {message}" in fails(folder, dev="train")
    assert f"data.test=dev,./train: {message}" in fails(folder, test="dev,./train")


def test_many_pairs_with_equal_sides_are_reported(folder, caplog):
    write(folder, "dev", [*PAIRS[200:212], *[(source, source) for source, _ in PAIRS[212:220]]])
    prepared(folder)
    assert "dev: 8 of 20 pairs have equal sides" in caplog.text


def test_a_character_that_sentencepiece_reserves(folder):
    for name, pairs in (("train", PAIRS[:200]), ("dev", PAIRS[200:220])):
        write(folder, name, [tuple(f"▅ {side} ▅" for side in pair) for pair in pairs])
    data = prepared(folder)
    assert train_pairs(data) == [tuple(f"▅ {side} ▅" for side in pair) for pair in PAIRS[:200]]


def test_bad_lines_in_a_table(tmp_path, caplog):
    lines = [f"{s}\t{t}\tx" for s, t in PAIRS]
    bad = {3: "no tab", 7: "\tno source", 9: "no target\t", 10: "", 12: "none\t\tx", 15: "a\\tb"}
    for at, line in bad.items():
        lines.insert(at, line)
    table(tmp_path, lines)
    options = dict(train="all.tsv", dev="", test="", holdout_size=10, columns="1,2")
    with pytest.raises(UserError, match=r"all\.tsv\.gz:4: 1 columns where 2 are needed"):
        prepared(tmp_path, **options)
    data = prepared(tmp_path, **options, on_bad_example="skip")
    counts = {"1 columns where 2 are needed": 3, "empty source": 1, "empty target": 2}
    assert sizes(data)["train"]["dropped"] == counts
    assert sizes(data)["train"]["pairs"] + sum(len(data.sources(s)) for s in ("dev", "test")) == 256
    assert "all.tsv.gz:4, " in caplog.text and "all.tsv.gz:16)" in caplog.text


def test_text_in_another_encoding(folder):
    for name, line in (("train.de", 3), ("dev.en", 2)):
        lines = (folder / name).read_bytes().split(b"\n")
        lines[line - 1] = "für".encode("latin-1")
        intact = (folder / name).read_bytes()
        (folder / name).write_bytes(b"\n".join(lines))
        with pytest.raises(UserError, match=rf"{name}:{line}: not UTF-8; .*skip"):
            prepared(folder)
        skipped = sizes(prepared(folder, on_bad_example="skip"))[name.split(".")[0]]
        assert skipped["dropped"] == {"not UTF-8": 1}
        (folder / name).write_bytes(intact)


def fails(folder, **options) -> str:
    with pytest.raises(UserError) as error:
        prepared(folder, **options)
    assert "\n" not in str(error.value)
    assert not list((folder / "cache").glob("*.tmp"))
    return str(error.value)


def test_mistakes_are_one_line(folder, tmp_path_factory):
    assert fails(folder, dir=str(folder / "none")) == f"data.dir={folder}/none: no such folder"
    assert "trian.en: no such file, nor with .gz" in fails(folder, train="trian")
    assert "all.tsv: no such file" in fails(folder, train="all.tsv")
    assert "data.train: name" in fails(folder, train="")
    assert "data.vocab_size=100000: this text has pieces for" in fails(folder, vocab_size=100_000)
    assert "train.en:1: no pairs left for train: 200 over" in fails(folder, max_length=1)
    (folder / "dev.de").write_text("ja\n")
    assert f"dev.de:1: ends after 1 lines, but {folder}/dev.en has 20" in fails(folder)
    with (folder / "dev.de").open("a") as file:
        file.write("ja\n" * 30)
    assert f"dev.en:20: ends after 20 lines, but {folder}/dev.de has 31" in fails(folder)
    write(folder, "dev", [])
    assert "dev.en:1: no pairs left for dev" in fails(folder)
    write(folder, "train", [])
    assert "train.en:1: no pairs to train on" in fails(folder)


def test_sides_that_are_no_translations_are_refused(folder):
    same = [(source, source) for source, _ in PAIRS[220:250]]
    write(folder, "test", [*same[:15], *PAIRS[:15]])
    prepared(folder)  # half of them
    write(folder, "test", [*same[:16], *PAIRS[:15]])
    assert fails(folder) == (
        "data.test=test: 16 of 31 pairs have equal sides; set the files, columns or languages of a "
        "translation, or accept it with data.max_equal_pairs (now 0.5)"
    )
    assert (
        prepared(folder, max_equal_pairs=1.0).references("test")[:15] == [s for s, _ in same][:15]
    )
    assert "pairs have equal sides" in fails(folder)  # also of what is prepared
    (folder / "test.de").unlink()
    (folder / "test.de").hardlink_to(folder / "test.en")
    assert "test.en: the same file as " in fails(folder, max_equal_pairs=1.0)
    assert "train.en: the same file as " in fails(folder, target_language="en")


@needs_real_data
def test_multi30k(tmp_path):
    folder = real_data("multi30k")
    options = dict(dir=str(folder), dev="val", test="test_2016_flickr", vocab_size=8000)
    data = prepared(tmp_path, **options, max_length=64, batch_tokens=1024, max_shapes=8)
    counts = sizes(data)
    assert [count["pairs"] for count in counts.values()] == [29_000, 1014, 1000]
    assert all(not count["dropped"] for count in counts.values())
    sides = [
        batch[side] for batch in data.train_batches().epoch(0) for side in ("source", "target")
    ]
    assert np.mean(np.concatenate([side.ravel() for side in sides]) == 0) <= 0.15  # padding
    assert data.references("test") == list(read_lines(folder / "test_2016_flickr.de.gz"))


@pytest.mark.slow
@needs_real_data
def test_tatoeba_does_not_leak(tmp_path):
    folder = real_data("tatoeba")
    options = dict(dir=str(folder), train="deu-eng.tsv", dev="", test="", holdout_size=2000)
    data = prepared(tmp_path, **options, vocab_size=8000, max_length=128)
    dev, test = set(data.sources("dev")), set(data.sources("test"))
    assert len(dev) == len(test) == 2000 and not dev & test
    lines = list(read_lines(folder / "deu-eng.tsv.gz"))
    held_out = dev | test
    train = [line for line in lines if line.split("\t")[0] not in held_out]
    corpus = data._corpus("train")
    assert len(corpus) == len(train)
    ids = data.source_subwords.encode([line.split("\t")[0] for line in train])
    digest = hashlib.sha256(np.concatenate([[*row, 1] for row in ids]).astype("<i4").tobytes())
    written = hashlib.sha256((data.path / "train" / "source.tokens").read_bytes())
    assert written.digest() == digest.digest()
