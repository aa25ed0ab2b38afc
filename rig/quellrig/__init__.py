"""The rig: MooseFS, its clients as network and mount namespaces, a wire with latency, and the server's counters.

`cli` reads the command line; `rig` brings everything up and down; `processes` starts and ends what it recorded;
`kernel` enters namespaces and makes TUN devices; `wire` talks to the wire program; `moosefs` knows the file system's
daemons, its client and its protocol; `counters` keeps running totals; `measure` runs commands between two readings;
`venv` fills the file system.
"""
