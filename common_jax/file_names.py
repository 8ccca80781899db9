"""Names of files that runs and exports share."""

CONFIG = "config.json"
VOCABULARY = "vocabulary"
EXPORT = "export.json"  # only in an export, which is not trained in
