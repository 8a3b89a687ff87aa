"""Documents of the API: what requests contain, and what responses contain.

A response takes its members from the attributes of what an operation returns. No member
has a value of a field, except in what is revealed.
"""

from dispatcher.surfaces.api.documents.answers import *
from dispatcher.surfaces.api.documents.base import *
from dispatcher.surfaces.api.documents.connectors import *
from dispatcher.surfaces.api.documents.evidence import *
from dispatcher.surfaces.api.documents.figures import *
from dispatcher.surfaces.api.documents.notices import *
from dispatcher.surfaces.api.documents.people import *
from dispatcher.surfaces.api.documents.plans import *
from dispatcher.surfaces.api.documents.policies import *
from dispatcher.surfaces.api.documents.records import *
from dispatcher.surfaces.api.documents.status import *
from dispatcher.surfaces.api.documents.workers import *
