"""Forms of charts in Altair, without rows; one module per kind. `bellwether.pages.charts` adds rows and titles for pages and pictures."""
