"""What the store tells of its own work, to whoever listens to the logger `lance_context`: nobody, by default.

It names tables, numbers and kinds of errors. What was remembered is never among it.
"""

import logging

log = logging.getLogger("lance_context")
log.addHandler(logging.NullHandler())
