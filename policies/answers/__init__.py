"""Answers of workers: whether one is valid, and what several say together.

- ``validation``, ``notation``: one answer, valid and in normal form;
- ``consensus``, ``distance``: one value from several answers, with a confidence;
- ``skill``: the assumed accuracy of a worker.
"""
