"""Augmentation by back-translation (Yu et al. 2018, section 3): paraphrases of training passages.

`paraphrases` holds the paraphrases of sentences, `relocation` finds an answer in a paraphrase,
`augment` assembles new passages, and `report` describes them. Translators are used through the
text interface of `launch.augment`; no model is imported here.
"""
