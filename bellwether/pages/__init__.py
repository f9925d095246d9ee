"""Pages as data and as HTML: the one model of the site, of scores and of tear sheets. Text is escaped, and nothing is loaded from elsewhere."""
