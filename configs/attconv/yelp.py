"""AttentiveConvNet on Yelp's reviews, one to five stars (section 4.3).

  python -m launch.train --config configs/attconv/yelp.py --config.data.dir=FOLDER \
    --config.data.vectors=glove.840B.300d.zip

FOLDER holds yelp_academic_dataset_review.json (yelp.com/dataset); or, with
--config.data.train=train.csv --config.data.test=test.csv, the CSV files of yelp_review_full. Dev
and test are held out of train, 2,000 reviews each; the paper has the 500,000 reviews of Lin et al.
(2017), whose selection is not published. Systems are those of configs/attconv/systems.py for one
text. Not trained here.
"""

from attconv_jax.config import DataConfig, WordsConfig
from configs.attconv.systems import config_of, finish


def get_config(system="advanced"):
    data = DataConfig(
        format="texts",
        dir="data/yelp",
        train="yelp_academic_dataset_review.json",
        examples=500_000,
        holdout_size=2000,
        labels="1,2,3,4,5",
        ignored_labels="",
        escaped_breaks=True,
        max_length=2000,
        batch_size=10,
        vectors="data/glove/glove.840B.300d.zip",
    )

    words = WordsConfig(rows=200_000, unknown_rows=100, rule="english")
    config = config_of(system, data, words)
    config.optimizer.learning_rate = 0.01
    config.train.update(
        steps=150_000,  # three epochs
        evaluate_every=5000,
        checkpoint_every=5000,
    )
    return finish(config, "table6", "Table 6, on another choice of reviews")
