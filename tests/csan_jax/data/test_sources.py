"""Pairs in tables, several files and TensorFlow Datasets, and their identities."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sacremoses import MosesDetokenizer, MosesTokenizer

from common_jax.bad_examples import BadExamples
from common_jax.config import from_values
from common_jax.errors import UserError
from common_jax.fields import from_mapping, to_mapping
from common_jax.training.config import parse
from common_jax.training.identity import result_fields
from csan_jax.config import Config, DataConfig
from csan_jax.data.sources import source_of
from csan_jax.data.text import undo_escapes
from tests.common_jax.data import phrasebook
from tests.families.data import corpora
from tests.families.data.corpora import translation, translation_config, write_pairs


def read(config, split="train", policy="error"):
    """The pairs, their places, and the first bad examples by kind."""
    source, bad_examples = source_of(config, split), BadExamples(policy)
    rows = list(source.read(bad_examples))
    bad = {kind: fault["first"] for kind, fault in bad_examples.counts.items()}
    return [row[1:] for row in rows], [row.place for row in rows], bad


def read_table(folder, content, name="train.csv", **options):
    (folder / name).write_bytes(content.encode())
    return read(translation_config(folder, train=name, **options))[0]


def test_known_headers_and_columns(tmp_path):
    for header in ("source,target", "SRC,id,Tgt", "en,de", "de,en"):
        cells = {"target": "Ein Hut.", "tgt": "Ein Hut.", "de": "Ein Hut.", "id": "7"}
        row = ",".join(cells.get(name, "A hat.") for name in header.lower().split(","))
        assert read_table(tmp_path, f"{header}\n{row}\n") == [("A hat.", "Ein Hut.")]
    content = "german;english\r\nEin Hut, rot;A hat, red\r\n"
    expected = [("A hat, red", "Ein Hut, rot")]
    assert read_table(tmp_path, content, columns="source=english,target=german") == expected
    assert read_table(tmp_path, content, columns="source=2,target=1")[1:] == expected
    assert read_table(tmp_path, content, columns="2,1", separator=";")[1:] == expected
    assert read_table(tmp_path, "A hat.\tEin Hut.\n", "t.tsv") == [("A hat.", "Ein Hut.")]


def test_cells_have_one_line_and_invisible_sides_are_empty(tmp_path):
    content = 'source,target\n"A\r\nhat","Ein\nHut"\n\u200b,Hut\nhat,\u00ad \n\ufeffone,eins\n'
    (tmp_path / "t.csv").write_bytes(content.encode())
    pairs, _, bad = read(translation_config(tmp_path, train="t.csv"), policy="skip")
    assert pairs == [("A hat", "Ein Hut"), ("one", "eins")]
    assert bad == {"empty source": [f"{tmp_path}/t.csv:5"], "empty target": [f"{tmp_path}/t.csv:6"]}
    write_pairs(tmp_path, "p", [("\ufeffone", "eins"), ("\u2060", "zwei")])
    pairs, _, bad = read(translation_config(tmp_path, train="p"), policy="skip")
    assert pairs == [("one", "eins")] and [*bad] == ["empty source"]


def test_parallel_files_with_carriage_returns_only(tmp_path):
    """Their names in a cache are not those of earlier versions, which read a single pair."""
    identities = []
    for end in ("\n", "\r"):
        for language in ("en", "de"):
            text = f"a{language}{end}b\u2028c{end}"
            (tmp_path / f"my, own.{language}").write_text(text, newline="")
        config = translation_config(tmp_path, train="my, own")
        assert read(config)[0] == [("aen", "ade"), ("b\u2028c", "b\u2028c")]
        identities.append(source_of(config, "train").identity())
    assert [len(identity) for identity in identities] == [2, 3]


def test_an_earlier_run_keeps_its_reading_of_quotation_marks(tmp_path):
    (tmp_path / "t.tsv").write_text('en\tde\n"a ""b"""\tc\n')
    config = translation_config(tmp_path, train="t.tsv")
    fields = to_mapping(config)
    assert read(from_mapping(DataConfig, fields))[0] == [('a "b"', "c")]
    del fields["quotes"]
    old = from_values(Config, {"data": fields}).data
    assert read(old)[0] == [('"a ""b"""', "c")]
    assert source_of(old, "train").identity() != source_of(config, "train").identity()


def test_runs_of_earlier_versions_have_tsv_columns():
    old, new = ({"data": {"dir": "x", name: "1,2"}} for name in ("tsv_columns", "columns"))
    assert from_values(Config, old) == from_values(Config, new)
    default = from_values(Config, {"data": {"dir": "x"}})
    assert result_fields(from_values(Config, old)) == result_fields(default)
    with pytest.raises(UserError, match=r"'data\.tsv_columns' is now 'data\.columns'"):
        parse("configs/csan/tatoeba_deen.py", ["--config.data.tsv_columns=1,2"])
    swapped = parse("configs/csan/tatoeba_deen.py", ["--config.data.columns=source=de,target=en"])
    assert swapped.data.columns_by_field == {"source": "de", "target": "en"}


TFDS = dict(source="tfds", tfds="phrasebook/de-en", source_language="de", target_language="en")
TFDS |= dict(train="train", dev="validation", test="test", vocab_size=320)


@pytest.fixture(scope="module")
def tfds(tmp_path_factory):
    phrasebook.register()
    return tmp_path_factory.mktemp("tfds")


def test_tensorflow_datasets(tfds):
    data = translation(tfds, **TFDS)
    assert [count for count, _ in data.split_sizes().values()] == [80, 15, 25]
    actual = set(zip(data.sources("test"), data.references("test"), strict=True))
    assert actual == set(phrasebook.PAIRS[95:120])
    pairs, places, _ = read(translation_config(tfds, **TFDS))
    assert set(pairs) == set(phrasebook.PAIRS[:80])
    assert places == [f"phrasebook/de-en train:{n}" for n in range(1, 81)]
    assert translation(tfds, **TFDS).path == data.path
    for changed in ({"tfds": "phrasebook/de-en:2.0.0"}, {"train": "train[:60]"}):
        assert translation(tfds, **TFDS | changed).path != data.path
    turned = {"source_language": "en", "target_language": "de", "dev": "", "holdout_size": 6}
    data = translation(tfds, **TFDS | turned)
    assert [count for count, _ in data.split_sizes().values()] == [74, 6, 25]
    held_out = set(zip(data.references("dev"), data.sources("dev"), strict=True))
    assert held_out < set(phrasebook.PAIRS[:80])


def test_bad_records_are_reported(tfds):
    broken = TFDS | {"tfds": "phrasebook/broken"}
    with pytest.raises(UserError, match=r"phrasebook/broken (train|test):\d+: .*on_bad_example"):
        translation(tfds, **broken)
    pairs, _, bad = read(translation_config(tfds, **broken), policy="skip")
    assert ("zwei Zeilen", "two lines") in pairs and len(pairs) == 77
    assert {kind: len(first) for kind, first in bad.items()} == {"not UTF-8": 1, "empty source": 2}
    data = translation(tfds, **broken, on_bad_example="skip")
    assert corpora.dropped(data, "test") == {"empty target": 1}
    assert len(data.sources("test")) == len(data.references("test")) == 24


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dev": "dev"}, "data.dev='dev': phrasebook/de-en has the splits train, valid"),
        ({"source_language": "fr"}, "data.source_language=fr: phrasebook/de-en has the texts de, "),
        ({"target_language": "zh"}, "data.target_language=zh: "),
        ({"source_language": "en"}, "data.source_language=en: also data.target_language"),
        ({"source_language": ""}, "data.target_language: name both"),
        ({"tfds": "phrasebok/x"}, "data.tfds=phrasebok/x: TensorFlow Datasets has no"),
    ],
)
def test_what_a_dataset_does_not_have_is_named(tfds, changes, message):
    assert message in corpora.fails("csan", tfds, **TFDS | changes)


PIECES = ["&apos;", "&quot;", "&lt;", "&gt;", "&#91;", "&#93;", "&#124;", "&amp;", "&", ";", "#"]
PIECES += ["amp;", "lt;", "apos", "91;", "&eacute;", "&#39;", "&nbsp;", "&amp", "x", " ", "ü"]


@given(st.lists(st.sampled_from(PIECES)).map("".join) | st.text(alphabet="a &'\"<>[]|;#19ü\u2028"))
@example("&amp;amp;lt; &amp;#124;")
@example("R&D &eacute;t&eacute; &#39; &APOS; &apos")
def test_undoing_escapes_agrees_with_sacremoses(text):
    assert undo_escapes(text) == MosesDetokenizer().unescape_xml(text)
    assert undo_escapes(MosesTokenizer().escape_xml(text)) == text


ESCAPED = [
    ("it &apos;s &quot; R &amp; D &quot;", "es ist &#91; F &#124; E &#93; &lt; &gt;"),
    ("&amp;lt; &eacute;", "&#39; & co"),
] * 20


def test_moses_escapes_are_undone_in_all_splits(tmp_path):
    undo = MosesDetokenizer().unescape_xml
    plain = [(undo(source), undo(target)) for source, target in ESCAPED]
    for split in ("train", "dev", "test"):
        write_pairs(tmp_path, split, ESCAPED)
        kept = read(translation_config(tmp_path), split)
        undone = read(translation_config(tmp_path, moses_escapes="undo"), split)
        assert kept[0] == ESCAPED and undone[0] == plain and kept[1] == undone[1]
    keep, undo = (translation(tmp_path, moses_escapes=m, vocab_size=300) for m in ("keep", "undo"))
    assert keep.path != undo.path
    assert keep.references("dev") == [target for _, target in ESCAPED]
    assert undo.references("dev") == [target for _, target in plain]
