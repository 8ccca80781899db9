"""Tables and figures of the papers: their specification, trials and pages."""
