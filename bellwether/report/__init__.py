"""Reports: a release as JSON files in KalshiBench's layout, as a page for people, and the figures that go with the numbers.

    from bellwether.report.inputs import read_inputs
    from bellwether.report.write import write_report

    write_report(read_inputs("warehouse.duckdb", "sandbox-2026"), "reports")

docs/report.md describes the files and their fields.
"""
