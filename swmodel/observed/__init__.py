"""Observations as their providers write them: one file for each format, all behind one reader.

    levels.py     Levels: what a reader returns, with the unit, the zone and the datum that the file states
    coops.py      CO-OPS of NOAA: CSV and JSON of its interface, CSV of its pages
    ioc.py        Sea Level Station Monitoring Facility of the IOC: tables in text, JSON
    dart.py       DART: text of NDBC
    uhslc.py      University of Hawaii Sea Level Center: CSV and netCDF
    steps.py      Steps: spikes, tides and datum of a record, as a user declares them
    folder.py     the records of the gauges in a folder, which scores, misfits and figures read

A file is recognised by its contents (runtime/formats.py). To read one more format, add its row there, a file with a
function from a path to Levels here, and a line to READERS of levels.py.
"""
