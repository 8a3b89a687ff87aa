"""Notices on their way out: to webhooks, and by mail to people.

What there is to tell is :data:`dispatcher.model.NOTICES`. A notice is written in the
transaction in which it happened; the daemon that leads gives each receiver a delivery,
and makes deliveries until they arrive or are given up.
"""
