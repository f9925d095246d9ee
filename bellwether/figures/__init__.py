"""Figures as Altair charts: frames in, charts out, one module per kind of figure.

    from bellwether.figures.reliability import reliability_diagram
    from bellwether.figures.canvas import png

    picture = png(reliability_diagram(bins, "Reliability"))

A chart is saved as HTML with `chart.save("chart.html")` and shown by notebooks; `png` renders it for files and for Dagster's metadata.
"""
