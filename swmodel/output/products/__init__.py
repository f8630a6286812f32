"""What runs compute of their states: each product is one declaration.

    base.py                                      Product, the Sample of the state that it reads, and its netCDF file
    snapshots.py, gauges.py                      records in time: of fields and spectra, and at gauges
    drifters.py                                  particles that move with the flow, and records of their places
    and the others                               fields that are accumulated on the device

A Product declares its parameters on its class. Its section in experiment files and its checks follow from that. So do
the memory that `swmodel check` counts, and the rule by which a resumed run continues its arrays. A user's own Product
has all of this, too (docs/guide/own_parts.md).
"""
