"""Instance files in, plans out: the paper's problem without a policy or a store.

- ``instance_file``: JSON instances, with their ``goal`` and ``utility``;
- ``importers``: graphs, hypergraphs and check-ins as instances;
- ``plan_document``: plans of instance files;
- ``json_values``: JSON values with located errors.
"""
