"""The rules of a policy: disclosure functions, and the sensitive sets that they make.

- ``kinds``: the disclosure functions, one row per kind;
- ``record_rules``, ``link_rules``, ``tabulated``, ``tabulated_links``: rules compiled,
  exact f of what is held of one record, subject or link;
- ``asks``: one asked entry judged by all rules, as the gate and policy tests do it;
- ``expand``: all sensitive sets of a table of entries (``entry_table``), for a plan;
  ``shared_places`` makes those of relation rules;
- ``belief``: posteriors and information gains over tables of worlds;
- ``functions``, ``field_utility``: functions and utilities that others wrote;
- ``groups``: which accounts are one adversary; ``crops``: what a crop of a scan shows.
"""
