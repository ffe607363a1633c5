"""The only rooms that know LanceDB."""

import os

from lance_context_core._util.extras import run_later

run_later("lance_namespace_urllib3_client")

# By default the engine takes all processors to make an index of words, and reads wait meanwhile.
os.environ.setdefault("LANCE_FTS_NUM_SHARDS", str(max((os.cpu_count() or 1) // 2, 1)))

# By default the engine retries a commit that lost the race for 30 seconds, with pauses that double: a
# writer who never pauses starves all others. `storage.lance.contention` retries in its place.
os.environ.setdefault("LANCE_COMMIT_RETRY_TIMEOUT_SECS", "0.001")
