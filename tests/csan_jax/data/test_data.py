"""Sentence pairs from file to batch: complete, without leaks, one line for each mistake."""

import collections
import gzip
import logging

import numpy as np
import pytest

from common_jax.errors import UserError
from csan_jax.data.dataset import TranslationData
from csan_jax.data.prepare import Builder
from tests.families.data import corpora
from tests.families.data.corpora import PAIRS, SPLITS, dropped, translation, write_pairs


@pytest.fixture
def folder(tmp_path):
    corpora.write_parallel(tmp_path)
    return tmp_path


def fails(folder, **options) -> str:
    return corpora.fails("csan", folder, **options)


def warned(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def pairs_of(data, split):
    return list(zip(data.sources(split), data.references(split), strict=True))


def train_pairs(data: TranslationData) -> list[tuple[str, str]]:
    """The training text as in the batches, in corpus order; rows have the end symbol and
    padding."""
    texts = []
    for side, subwords in ("source", data.source_subwords), ("target", data.target_subwords):
        batches = data.train_batches()
        assert not any(batch[side][batch["index"] < 0].any() for batch in batches.epoch(0))
        rows = [row[side] for row in corpora.rows_of(batches)]
        lengths = [np.count_nonzero(row) for row in rows]
        for row, length in zip(rows, lengths, strict=True):
            assert row[length - 1] == 1 and not row[length:].any()
        texts.append(subwords.decode([r[: n - 1] for r, n in zip(rows, lengths, strict=True)]))
    return [*zip(*texts, strict=True)]


@pytest.mark.parametrize("joint", [True, False])
def test_parallel_files(folder, joint):
    data = translation(folder, joint_vocabulary=joint, vocab_size=330 if joint else 310)
    assert train_pairs(data) == SPLITS["train"]
    assert (data.source_subwords is data.target_subwords) == joint
    for split in ("dev", "test"):
        assert pairs_of(data, split) == SPLITS[split]
        indices = [i for b in data.split_batches(split, 64).epoch(0) for i in b["index"] if i >= 0]
        assert sorted(indices) == list(range(len(SPLITS[split])))
    pieces = sum(len(data.source_subwords.encode([s])[0]) + 1 for s, _ in SPLITS["train"])
    assert data.split_sizes()["train"] == (200, {})
    assert data.corpus("train").tokens("source") == pieces


def test_each_side_may_have_its_own_vocabulary_size(folder):
    options = {"joint_vocabulary": False, "source_vocab_size": 300}
    data = translation(folder, **options, target_vocab_size=305)
    assert (data.source_subwords.size, data.target_subwords.size) == (300, 305)
    assert train_pairs(data) == SPLITS["train"]
    message = fails(folder, **options, target_vocab_size=9000)
    assert message.startswith("data.target_vocab_size=9000: this text has pieces for")


def test_equal_sizes_are_what_vocab_size_says(folder):
    """The fingerprint is that of versions without sizes for each side."""
    fingerprints = []
    for source, target in ((0, 0), (310, 0), (310, 310), (310, 305)):
        sizes = {"vocab_size": 310, "source_vocab_size": source, "target_vocab_size": target}
        config = corpora.translation_config(folder, joint_vocabulary=False, **sizes)
        fingerprints.append(Builder(config).fingerprint())
    assert fingerprints[0] == fingerprints[1] == fingerprints[2]
    assert fingerprints[0]["vocabulary"] == [False, 310]
    assert fingerprints[3]["vocabulary"] == [False, 310, 305]
    assert set(fingerprints[0]) == set(fingerprints[3])


def test_vocabulary_travels_alone(folder, tmp_path_factory):
    data = translation(folder)
    run, other = (tmp_path_factory.mktemp(name) for name in ("run", "other"))
    data.write_vocabulary(run)
    alone = TranslationData(data.config)
    alone.read_vocabulary(run)
    assert alone.source_subwords == data.source_subwords
    alone.prepare()
    for split in SPLITS:
        write_pairs(other, split, [(s.upper(), t.upper()) for s, t in PAIRS])
    stranger = translation(other, prepare=False)
    stranger.read_vocabulary(run)
    with pytest.raises(UserError, match="other subwords than the run has"):
        stranger.prepare()
    with pytest.raises(UserError, match=r"source\.model: No such file"):
        translation(folder, prepare=False, joint_vocabulary=False).read_vocabulary(run)


TABLE = [f"{s}\t{t} {n}\tCC-BY {n}" for s, t in PAIRS for n in range(1 + len(s) % 3)]
HELD_OUT = dict(train="all.tsv", columns="1,2", dev="", test="", holdout_size=20)


def table(folder, lines):
    (folder / "all.tsv.gz").write_bytes(gzip.compress("".join(f"{x}\n" for x in lines).encode()))


def test_held_out_sentences_are_in_one_split(tmp_path):
    table(tmp_path, TABLE)
    data = translation(tmp_path, **HELD_OUT)
    parts = [train_pairs(data), pairs_of(data, "dev"), pairs_of(data, "test")]
    train, dev, test = ({source for source, _ in part} for part in parts)
    assert len(dev) == len(test) == 20 and len(train) == len(PAIRS) - 40
    assert not train & dev | train & test | dev & test
    expected = collections.Counter(tuple(line.split("\t")[:2]) for line in TABLE)
    assert collections.Counter(pair for part in parts for pair in part) == expected
    for options, equal in ({"max_length": 39}, True), ({"seed": 1}, False):
        again = translation(tmp_path, **HELD_OUT | options)
        assert (again.sources("dev") == data.sources("dev")) == equal
    write_pairs(tmp_path, "test", PAIRS[:9])
    only_dev = translation(tmp_path, **HELD_OUT | {"test": "test"})
    assert only_dev.sources("dev") == data.sources("dev")
    assert pairs_of(only_dev, "test") == PAIRS[:9]
    message = fails(tmp_path, **HELD_OUT | {"holdout_size": 200})
    assert message.startswith("data.holdout_size=200: ")
    assert "all.tsv.gz" in message and " 256 " in message and "at most 127" in message
    translation(tmp_path, **HELD_OUT | {"holdout_size": 127, "vocab_size": 300})


def test_the_targets_of_held_out_sentences_are_not_in_train(tmp_path):
    """A reference that is another sentence's translation in train is known to the model."""
    lines = [f"{source}\t{PAIRS[n % 50][1]}" for n, (source, _) in enumerate(PAIRS[:90])]
    table(tmp_path, lines)
    data = translation(tmp_path, **HELD_OUT)
    train, *held_out = (train_pairs(data), pairs_of(data, "dev"), pairs_of(data, "test"))
    targets = {target for part in held_out for _, target in part}
    sources = {source for part in held_out for source, _ in part}
    pairs = [tuple(line.split("\t")) for line in lines]
    expected = [(s, t) for s, t in pairs if s not in sources and t not in targets]
    assert collections.Counter(train) == collections.Counter(expected)
    dropped = data.corpus("train").meta["dropped"]["the target of a held-out pair"]["count"]
    assert dropped == 90 - 40 - len(expected) > 0

    # as of versions before
    former = translation(tmp_path, **HELD_OUT | {"held_out_by": "source"})
    assert former.sources("dev") == data.sources("dev")
    assert len(train_pairs(former)) == 50 and former.path != data.path


LONG = ("the cat " * 30, "die Katze " * 30)


def test_long_training_pairs_are_dropped_and_reported(folder, caplog):
    write_pairs(folder, "train", [*PAIRS[:100], LONG, *PAIRS[100:200], (LONG[0], "kurz")])
    data = translation(folder)
    assert train_pairs(data) == SPLITS["train"]
    assert dropped(data) == {"over data.max_length=40 pieces": 2}
    (message,) = warned(caplog)
    assert "kept 200 pairs, left out 2 over data.max_length=40 pieces" in message
    assert f"{folder}/train.en:101, {folder}/train.en:202" in message


def test_the_limit_counts_the_end_symbol(folder):
    lengths = translation(folder).corpus("train").lengths("source", "target").max(1)
    for limit in (lengths.max(), lengths.max() - 1):
        count = sum(dropped(translation(folder, max_length=int(limit))).values())
        assert count == (lengths > limit).sum()


def test_evaluation_keeps_and_truncates_nothing(folder, caplog):
    write_pairs(folder, "dev", [PAIRS[200], LONG])
    data = translation(folder)
    assert data.sources("dev") == [PAIRS[200][0], LONG[0]]
    (message,) = warned(caplog)
    lengths = {split: data.input_lengths(split).max() for split in ("train", "dev")}
    assert message == (
        f"dev: 1 of 2 pairs have up to {lengths['dev']} tokens, where training has at most "
        f"{lengths['train']} (number 2)"
    )
    rows = [b for b in data.split_batches("dev", 64).epoch(0) if 1 in b["index"]]
    width = rows[0]["source"].shape[1]
    assert np.count_nonzero(rows[0]["source"][rows[0]["index"] == 1]) == width > 40


SPACES = "\t\u00a0\r\x0b\x0c\x1f\x85\u2009\u2028\u202f\u3000"


def test_other_white_space_is_read_as_blanks(folder, caplog):
    expected = translation(folder, white_space="keep")
    assert translation(folder).digests() == expected.digests()  # without other white space
    for name, pairs in SPLITS.items():
        spaces = [SPACES[n % len(SPACES)] for n in range(len(pairs))]
        spaced = [
            tuple(side.replace(" ", space, 1) for side in pair)
            for space, pair in zip(spaces, pairs, strict=True)
        ]
        write_pairs(folder, name, spaced)
    before = translation(folder, white_space="keep")
    caplog.set_level(logging.INFO)
    data = translation(folder)
    assert data.path != before.path  # not that of the earlier rule, in the same cache
    assert data.digests() == expected.digests() != before.digests()
    assert pairs_of(data, "test") == SPLITS["test"]
    assert "dev: 20 of 20 pairs have tabs, NBSP, CR or other white space" in caplog.text
    held_out = translation(folder, dev="", holdout_size=20)
    texts = [*held_out.sources("dev"), *held_out.references("dev")]
    assert len(texts) == 40 and not {*SPACES} & {*"".join(texts)}


def test_text_that_is_already_cut_into_pieces(folder, caplog):
    test = SPLITS["test"]
    marked = [tuple("▁" + side.replace(" ", " ▁") for side in pair) for pair in test]
    write_pairs(folder, "test", [*marked[:15], *test[15:]])
    assert translation(folder).references("test")[0] == " " + test[0][1].replace(" ", "  ")
    write_pairs(folder, "test", [*marked[:16], *test[16:]])
    assert "data.test=test: 16 of 30 pairs have ▁ (U+2581)" in fails(folder)
    write_pairs(folder, "test", [tuple(side.replace(" ", "@@ ") for side in p) for p in test])
    translation(folder)
    assert "test: 30 of 30 pairs have @@, as text that subword-nmt" in caplog.text
    assert "train: " not in caplog.text


def test_a_character_that_sentencepiece_reserves(folder):
    pairs = [tuple(f"▅ {side} ▅" for side in pair) for pair in SPLITS["train"]]
    write_pairs(folder, "train", pairs)
    assert train_pairs(translation(folder)) == pairs


def test_files_of_different_lengths_are_refused(folder):
    (folder / "dev.de").write_text("ja\n")
    assert fails(folder).startswith("dev.de:1: ends after 1 lines, but dev.en has 20")
    (folder / "dev.de").write_text("ja\n" * 31)
    assert fails(folder).startswith("dev.en:20: ends after 20 lines, but dev.de has 31")
    for split, message in (("dev", "no pairs left for dev"), ("train", "no pairs to train on")):
        write_pairs(folder, split, [])
        assert fails(folder).startswith(f"{split}.en:1: {message}")


def test_sides_that_are_no_translations_are_refused(folder, caplog):
    same = [(source, source) for source, _ in SPLITS["test"]]
    write_pairs(folder, "test", [*same[:15], *PAIRS[:15]])
    translation(folder)  # half of them
    assert "test: 15 of 30 pairs have equal sides" in caplog.text
    write_pairs(folder, "test", [*same[:16], *PAIRS[:15]])
    message = fails(folder)
    assert message.startswith("data.test=test: 16 of 31 pairs have equal sides")
    assert "data.max_equal_pairs (now 0.5)" in message
    assert pairs_of(translation(folder, max_equal_pairs=1.0), "test")[:15] == same[:15]
    assert fails(folder) == message  # also of what is prepared
    (folder / "test.de").unlink()
    (folder / "test.de").hardlink_to(folder / "test.en")
    assert "test.en: the same file as " in fails(folder, max_equal_pairs=1.0)
    assert "train.en: the same file as " in fails(folder, target_language="en")


def test_workers_change_nothing(tmp_path, monkeypatch):
    """Of several chunks, the last one incomplete."""
    monkeypatch.setattr("csan_jax.data.prepare._CHUNK", 700)
    options = {"source": "generated", "examples": 3000, "holdout_size": 50, "dir": ""}
    options |= {"vocab_size": 600, "max_length": 128}
    made = []
    for workers in (1, 3, None):
        cache = str(tmp_path / str(workers))
        data = translation(tmp_path, prepare=False, **options, cache_dir=cache)
        data.prepare(workers)
        made.append((data.path.name, data.digests()))
    assert made[0] == made[1] == made[2] and data.split_sizes()["train"][0] == 3000
