"""Answers of workers: validation of one, and the consensus of several.

- ``validation``, ``notation``: one answer, valid and in normal form;
- ``consensus``, ``distance``: one value from several answers, with a confidence;
- ``skill``: the assumed accuracy of a worker.
"""
