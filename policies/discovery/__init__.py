"""What is sensitive in a table: which columns single people out, and which tell others.

- ``coded_table``: a table, or a sample of it, as numbers by column;
- ``uniqueness``: how many people single columns, pairs and triples single out, and the
  smallest combinations that tell all rows apart;
- ``dependencies``: columns that tell another one;
- ``exhaustive``: both of any size, by desbordante where it is installed;
- ``text_names``: names and numbers of people inside free text;
- ``column_names``, ``value_shapes``: what the names and the values of a column say;
- ``profile``: all of it together, for a draft of a policy and for checks against a file.
"""
