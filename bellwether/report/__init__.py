"""Reports of a release and of trading: JSON files (KalshiBench's layout for a release), a page in Markdown, and figures.

    from bellwether.report.inputs import read_inputs
    from bellwether.report.writer import write_report

    write_report(read_inputs("warehouse.duckdb", "sandbox-2026"), "reports")

docs/scoring.md describes the files and their fields.
"""
