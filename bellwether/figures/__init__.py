"""Figures as Altair charts, built from frames; one module per kind of figure.

    from bellwether.figures.reliability import reliability_diagram
    from bellwether.figures.canvas import png

    picture = png(reliability_diagram(bins, "Reliability"))

Notebooks display a chart, and `png` renders it for files and for Dagster's metadata. `chart.save("chart.html")` does not escape names: use it only
with trusted names.
"""
