"""Augmentation by back-translation (Yu et al. 2018, section 3): paraphrases of training passages.

`paraphrases` reads and writes the paraphrases of sentences, `relocation` locates an answer in a
paraphrase, `augment` assembles new passages and describes them in a report. No model is imported
here: `launch.augment` passes the translators as functions from texts to texts.
"""
