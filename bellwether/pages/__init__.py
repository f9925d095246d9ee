"""Pages as data and as HTML, shared by the site, score pages and tear sheets. Text is escaped, and pages load nothing from other hosts."""
