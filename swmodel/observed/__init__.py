"""Observations as their providers write them, all behind one reader.

    levels.py     Levels: the records of gauges of CO-OPS, IOC, DART and UHSLC
    points.py     Samples along the tracks of altimeters and in their swaths; high-water marks
    folder.py     the records of the gauges in a folder, which scores, misfits and figures read, and what a user
                  declares is done to them: spikes, tides and datum

A file is recognised by its contents (runtime/formats.py). To read one more format of gauges, add its row there, and a
function from a path to Levels to READERS of levels.py.
"""
