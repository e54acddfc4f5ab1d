"""A real HBase for development and tests: ZooKeeper, master, region servers and Thrift gateway on this machine.

jars.py        the jars, fetched by Maven once and kept in a cache
process.py     one Java process: started, recognised, stopped
cluster.py     all of them together: DevCluster
"""
