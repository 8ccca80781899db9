"""Tables and figures of the papers: what they are made of, the finished trials, the pages."""
