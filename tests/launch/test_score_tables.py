"""Tables of a classifier's scores, against counts by hand."""

from launch.score_tables import score_tables


def test_labels_have_precision_recall_f1_and_counts():
    confusion = {"bad": {"bad": 3, "good": 1, "odd": 0}, "good": {"bad": 2, "good": 2, "odd": 0}}
    confusion["odd"] = {"bad": 0, "good": 0, "odd": 0}
    text = score_tables({"confusion": confusion, "by_length": [[1, 4, 75.0], [5, 9, 50.0]]})
    labels, _, lengths = text.partition("\n\n")
    rows = {row.split()[0]: row.split()[1:] for row in labels.splitlines()}
    assert rows["label"] == ["precision", "recall", "F1", "examples", "predicted"]
    assert rows["bad"] == ["60.0", "75.0", "66.7", "4", "5"]
    assert rows["good"] == ["66.7", "50.0", "57.1", "4", "3"]
    assert rows["odd"] == ["-", "-", "-", "0", "0"]
    assert [row.split() for row in lengths.splitlines()[1:]] == [
        ["1", "to", "4", "75.0"],
        ["5", "to", "9", "50.0"],
    ]
    assert score_tables({"intervals": {}}) == ""
