"""Model and HTML rendering of pages of the site, scores and tear sheets. Text is escaped, and pages load nothing from other hosts."""
