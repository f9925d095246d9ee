"""Reports of a release: JSON files in KalshiBench's layout, an HTML page, and the figures of both.

    from bellwether.report.inputs import read_inputs
    from bellwether.report.writer import write_report

    write_report(read_inputs("warehouse.duckdb", "sandbox-2026"), "reports")

docs/scoring.md describes the files and their fields.
"""
