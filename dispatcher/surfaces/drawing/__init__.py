"""The page on which boxes are drawn: on this machine, for whoever has the one link.

=============================  =====================================================
``GET /``                      asks for the link; then the page
``POST /login``                ``code`` = what stands after ``#k=`` in the link; it
                               works once, within ten minutes
``GET /scans/N/PAGE.png``      a page of a scan as it is aligned to the template; 0 is
                               the template
``POST /check``                what `policy check` says of the boxes
``POST /fit``                  whether they fit a scan: set aside, ink at the borders
``POST /save``                 writes them into the policy file
``POST /finish``               ends the program
=============================  =====================================================

Nothing is kept but the policy file. All pages have the headers, limits and checks of
the other surfaces.
"""

from dispatcher.surfaces.drawing.app import crops_page, drawing_app, serve_drawing

__all__ = ["crops_page", "drawing_app", "serve_drawing"]
