"""Pages as data, and their rendering as HTML: for the site, scores and tear sheets. Text is escaped, and pages load nothing from other hosts."""
